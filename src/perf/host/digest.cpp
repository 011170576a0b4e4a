// SPDX-License-Identifier: MIT
// SHA-256 and base64 by OpenSSL's libcrypto.
#include "perf/host/digest.h"

#include <array>
#include <fstream>
#include <memory>

#include <fmt/format.h>
#include <openssl/evp.h>

namespace fla::perf::host {
namespace {

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
  }
  void add(std::string_view bytes) { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }
  std::string finish() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
    unsigned int size = 0;
    EVP_DigestFinal_ex(context_.get(), raw.data(), &size);
    std::string hex;
    for (unsigned int i = 0; i < size; ++i) {
      hex += fmt::format("{:02x}", raw[i]);
    }
    return hex;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

}  // namespace

std::string sha256(std::string_view bytes) {
  Sha256 digest;
  digest.add(bytes);
  return digest.finish();
}

Result<std::string> sha256_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Sha256 digest;
  std::array<char, 65536> buffer;
  while (file) {
    file.read(buffer.data(), buffer.size());
    digest.add({buffer.data(), static_cast<size_t>(file.gcount())});
  }
  if (!file.eof()) {
    return Status(Code::kIo, fmt::format("cannot read '{}'", path));
  }
  return digest.finish();
}

std::string to_base64(std::string_view bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');  // and the NUL that OpenSSL adds
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                  reinterpret_cast<const unsigned char*>(bytes.data()),
                  static_cast<int>(bytes.size()));
  text.pop_back();
  return text;
}

Result<std::string> from_base64(std::string_view text) {
  std::string bytes(3 * (text.size() / 4) + 3, '\0');
  const int size = text.size() % 4 != 0
                       ? -1
                       : EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                         reinterpret_cast<const unsigned char*>(text.data()),
                                         static_cast<int>(text.size()));
  if (size < 0) {
    return Status(Code::kIo, "not base64");
  }
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  bytes.resize(static_cast<size_t>(size) - padding);
  return bytes;
}

}  // namespace fla::perf::host
