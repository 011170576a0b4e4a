// SPDX-License-Identifier: MIT
// Streams, event timers and graphs: what measurements and capture need. Plain C++: no CUDA header.
#pragma once

#include <functional>

#include "fla/plan.h"
#include "fla/status.h"

namespace fla::cuda {

/// A stream of the current device that does not wait for the default stream. Move-only.
class OwnedStream {
 public:
  static Result<OwnedStream> create();
  ~OwnedStream();
  OwnedStream(OwnedStream&& other) noexcept;
  OwnedStream& operator=(OwnedStream&& other) noexcept;

  Stream get() const { return Stream(handle_); }
  Status synchronize() const;

 private:
  OwnedStream() = default;
  void* handle_ = nullptr;
};

/// What is put on `later` from now on begins after all that is on `earlier` now; in a capture too,
/// which then takes in both streams.
Status order_after(Stream later, Stream earlier);

/// Device time between two points of a stream. Move-only.
class EventTimer {
 public:
  static Result<EventTimer> create();
  ~EventTimer();
  EventTimer(EventTimer&& other) noexcept;
  EventTimer& operator=(EventTimer&& other) noexcept;

  Status start(Stream stream) const;
  Status stop(Stream stream) const;
  /// Waits for the stop, then the milliseconds between.
  Result<double> milliseconds() const;

 private:
  EventTimer() = default;
  void* start_ = nullptr;
  void* stop_ = nullptr;
};

/// A captured, ready-to-launch graph. Move-only.
class GraphExec {
 public:
  /// Captures what `work` puts on `stream`; nothing runs.
  static Result<GraphExec> capture(Stream stream, const std::function<Status()>& work);
  ~GraphExec();
  GraphExec(GraphExec&& other) noexcept;
  GraphExec& operator=(GraphExec&& other) noexcept;

  Status launch(Stream stream) const;

 private:
  GraphExec() = default;
  void* handle_ = nullptr;
};

}  // namespace fla::cuda
