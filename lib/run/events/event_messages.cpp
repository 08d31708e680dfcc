#include "run/events/event_messages.h"

#include "support/protobuf_message.h"

namespace dimred::run {
namespace {

using protobuf::Message;

// Numbers of the fields, by message.
namespace event {
constexpr int wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7;
}
namespace summary {
constexpr int value = 1;
}
namespace value {
constexpr int tag = 1, simple_value = 2;
}
namespace session_log {
constexpr int status = 1;
constexpr std::uint64_t start = 1;
}  // namespace session_log

/// An event as far as its step; the time lies in its first bytes.
Message event_at(double wall_time, std::int64_t step) {
  Message message;
  message.number(event::wall_time, wall_time);
  message.integer(event::step, step);
  return message;
}

constexpr std::size_t time_bytes = 1 + sizeof(double);

}  // namespace

std::string version_event(double wall_time) {
  Message message;
  message.number(event::wall_time, wall_time).bytes(event::file_version, "brain.Event:2");
  return message.text();
}

std::string start_event(double wall_time, std::int64_t step) {
  Message log;
  log.integer(session_log::status, session_log::start);
  return event_at(wall_time, step).bytes(event::session_log, log.text()).text();
}

std::string scalars_event(double wall_time, std::int64_t step, const std::vector<Scalar>& scalars) {
  Message all;
  for (const auto& scalar : scalars) {
    Message one;
    one.bytes(value::tag, scalar.tag);
    one.number(value::simple_value, static_cast<float>(scalar.value));
    all.bytes(summary::value, one.text());
  }
  return event_at(wall_time, step).bytes(event::summary, all.text()).text();
}

bool equal_apart_from_time(std::string_view one, std::string_view other) {
  return one.size() == other.size() && one.size() >= time_bytes &&
         one.substr(time_bytes) == other.substr(time_bytes);
}

}  // namespace dimred::run
