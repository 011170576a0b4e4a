// SPDX-License-Identifier: MIT
// Names of status codes.
#include "fla/status.h"

namespace fla {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kInvalidArgument:
      return "invalid_argument";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kWorkspaceTooSmall:
      return "workspace_too_small";
    case Code::kNoDevice:
      return "no_device";
    case Code::kCuda:
      return "cuda";
    case Code::kIo:
      return "io";
    case Code::kInternal:
      return "internal";
  }
  return "unknown";
}

}  // namespace fla
