#include "training/events/event_messages.h"

#include <bit>
#include <concepts>

namespace dimred::training {
namespace {

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

enum class Wire { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

/// One message under construction.
class Message {
 public:
  Message& varint(int field, std::uint64_t number) {
    key(field, Wire::varint);
    append_varint(number);
    return *this;
  }
  Message& number(int field, double number) {
    key(field, Wire::fixed64);
    append_fixed(std::bit_cast<std::uint64_t>(number));
    return *this;
  }
  Message& number(int field, float number) {
    key(field, Wire::fixed32);
    append_fixed(std::bit_cast<std::uint32_t>(number));
    return *this;
  }
  Message& bytes(int field, std::string_view text) {
    key(field, Wire::bytes);
    append_varint(text.size());
    text_ += text;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  void key(int field, Wire wire) {
    append_varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire));
  }
  void append_varint(std::uint64_t number) {
    for (; number >= 0x80; number >>= 7) text_ += static_cast<char>(0x80 | (number & 0x7F));
    text_ += static_cast<char>(number);
  }
  template <std::unsigned_integral Integer>
  void append_fixed(Integer number) {
    for (std::size_t i = 0; i < sizeof number; ++i)
      text_ += static_cast<char>(number >> 8 * i & 0xFF);
  }

  std::string text_;
};

/// An event as far as its step; the time lies in its first bytes.
Message event_at(double wall_time, std::int64_t step) {
  Message message;
  message.number(event::wall_time, wall_time);
  message.varint(event::step, static_cast<std::uint64_t>(step));
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
  log.varint(session_log::status, session_log::start);
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

}  // namespace dimred::training
