#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// TensorBoard's messages as bytes. Written by hand: three kinds of message need a varint, a
// fixed64, a fixed32 and nested bytes, and torch's include folder carries a protobuf of its own
// version. Source: tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto.
namespace dimred::run {

struct Scalar {
  std::string tag;
  double value = 0;  // written as float32
};

/// The first message of a file: Event{wall_time, file_version: "brain.Event:2"}. Times are seconds
/// since 1970.
std::string version_event(double wall_time);

/// Event{wall_time, step, session_log: {status: START}}: TensorBoard forgets what it has read of
/// steps >= step before it.
std::string start_event(double wall_time, std::int64_t step);

/// Event{wall_time, step, summary: {value: {tag, simple_value}...}}.
std::string scalars_event(double wall_time, std::int64_t step, const std::vector<Scalar>& scalars);

/// True when two messages of the functions above differ in their time at most.
bool equal_apart_from_time(std::string_view one, std::string_view other);

}  // namespace dimred::run
