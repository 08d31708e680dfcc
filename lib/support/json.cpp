#include "support/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "support/byte_order_mark.h"
#include "support/errors.h"
#include "support/printable.h"

namespace dimred {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Bytes that reading holds for a part of the text, at the most; with what malloc adds.
constexpr std::size_t element_bytes = 48;    // of a list that grows: three times its values
constexpr std::size_t container_bytes = 64;  // an object or list without its content
constexpr std::size_t string_bytes = 48;     // beside its letters
constexpr std::size_t member_bytes = 48;     // a tree's node beside the name in it
constexpr std::size_t name_bytes = 80;       // beside its letters, while the object is open
constexpr std::size_t longest_token = 1 << 20;

/// A string of up to 15 letters holds them itself.
std::size_t letter_bytes(std::size_t letters) { return letters > 15 ? letters + 25 : 0; }

/// "line 3, column 7: " of a position in the text.
std::string position_text(std::string_view text, std::size_t at) {
  const auto before = text.substr(0, at);
  const auto line = std::ranges::count(before, '\n') + 1;
  return formatted("line {}, column {}: ", line, at - before.rfind('\n'));  // npos is -1
}

/// Holds a text against the limits by its punctuation, before anything is made of it.
class Measure {
 public:
  Measure(std::string_view text, std::string_view source, const JsonLimits& limits)
      : text_(text),
        source_(source),
        limits_(limits),
        most_memory_(std::max(limits.memory, limits.memory_per_byte * text.size())) {}

  void run() {
    limit(text_.size(), limits_.bytes, " bytes");
    for (; at_ < text_.size(); ++at_) {
      const char letter = text_[at_];
      token_ =
          std::string_view(",:[]{} \t\r\n").find(letter) == std::string_view::npos ? token_ + 1 : 0;
      limit(token_, longest_token, " bytes in one text or number");
      if (letter == '"') take_string();
      if (letter == '[' || letter == '{') open(letter);
      if (letter == ']' || letter == '}') close();
      if (letter == ',' && !open_.empty() && open_.back().bracket == '[') add(element_bytes);
      if (letter == ':' && !open_.empty()) take_name();
    }
  }

 private:
  struct Container {
    char bracket;
    std::size_t names = 0;
  };

  void limit(std::size_t value, std::size_t most, const char* what) const {
    if (value <= most) return;
    fail_environment("{}: {}needs at most {}{}", source_, position_text(text_, at_), most, what);
  }

  void add(std::size_t bytes) {
    memory_ += bytes;
    limit(memory_, most_memory_, " bytes of memory for its values");
  }

  void open(char bracket) {
    open_.push_back({bracket});
    limit(open_.size(), limits_.depth, " levels of nesting");
    add(container_bytes + element_bytes);
  }

  void close() {
    if (open_.empty()) return;
    memory_ -= open_.back().names;
    open_.pop_back();
  }

  /// Up to the closing quote.
  void take_string() {
    const auto begin = ++at_;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    string_ = at_ - begin;
    limit(string_, longest_token, " bytes in one text or number");
    add(string_bytes + letter_bytes(string_));
  }

  void take_name() {
    const auto bytes = name_bytes + letter_bytes(string_);
    open_.back().names += bytes;
    add(member_bytes + bytes);
  }

  std::string_view text_, source_;
  const JsonLimits& limits_;
  std::size_t most_memory_;
  std::size_t at_ = 0, memory_ = 0, token_ = 0, string_ = 0;
  std::vector<Container> open_;
};

/// Builds the value; throws for a name that an object has twice (the parser alone would keep the
/// last). (The library's own builder looks for each name of an ordered object among all before it.)
/// With a taker, the value has to be an object, whose members go there one by one; none is kept.
template <class Json>
class Builder {
 public:
  Builder(Json& value, std::string_view source, const TakeMember* take)
      : value_(&value), source_(source), take_(take) {}

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(typename Json::number_integer_t value) { return put(value); }
  bool number_unsigned(typename Json::number_unsigned_t value) { return put(value); }
  bool number_float(typename Json::number_float_t value, const std::string& /*text*/) {
    return put(value);
  }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(typename Json::binary_t& /*value*/) { return false; }  // no JSON text has any

  bool start_object(std::size_t /*size*/) {
    names_.emplace_back();
    return open(Json::object());
  }
  bool end_object() {
    names_.pop_back();
    return close();
  }
  bool start_array(std::size_t /*size*/) { return open(Json::array()); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    if (!names_.back().insert(name).second)
      fail_environment("{}: {}: given twice", source_, printable(name));
    key_ = std::move(name);
    return true;
  }

  template <class Error>
  bool parse_error(std::size_t /*at*/, const std::string& /*token*/, const Error& error) {
    throw error;
  }

 private:
  /// A list or object, whose elements do not move while one of them is open.
  bool open(Json value) {
    open_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    give_member();
    return true;
  }
  bool put(Json value) {
    place(std::move(value));
    give_member();
    return true;
  }
  /// Gives what is whole now to the taker, where it is a member of the text's object.
  void give_member() {
    if constexpr (std::is_same_v<Json, json>) {
      if (take_ == nullptr || open_.size() != 1) return;
      const auto member = value_->begin();
      (*take_)(member.key(), member.value());
      value_->clear();
    }
  }
  Json* place(Json value) {
    if (open_.empty()) {
      require_environment(
          take_ == nullptr || value.is_object(), "{}: needs a JSON object {{...}}", source_);
      *value_ = std::move(value);
      return value_;
    }
    if (auto* list = open_.back()->template get_ptr<typename Json::array_t*>())
      return &list->emplace_back(std::move(value));
    auto& object = open_.back()->template get_ref<typename Json::object_t&>();
    if constexpr (std::is_same_v<Json, ordered_json>) {
      auto& members = static_cast<typename Json::object_t::Container&>(object);
      return &members.emplace_back(std::move(key_), std::move(value)).second;
    } else {
      return &object.emplace(std::move(key_), std::move(value)).first->second;
    }
  }

  Json* value_;
  std::string_view source_;
  const TakeMember* take_;  // null: the whole value is built
  std::vector<Json*> open_;
  std::vector<std::set<std::string>> names_;  // of the objects that are open
  std::string key_;
};

template <class Json>
Json parse(std::string_view text,
           std::string_view source,
           const JsonLimits& limits,
           const TakeMember* take = nullptr) {
  text = without_byte_order_mark(text, source);
  Measure(text, source, limits).run();
  Json value;
  Builder<Json> builder(value, source, take);
  try {
    Json::sax_parse(text, &builder);
  } catch (const typename Json::parse_error& error) {
    // "... - unexpected '}'; expected ..."; library 3.11.3 words an empty text otherwise.
    std::string_view reason(error.what());
    const auto dash = reason.find(" - ");
    reason.remove_prefix(dash == std::string_view::npos ? 0 : dash + 3);
    fail_environment("{}: the text is not JSON, {}{}",
                     source,
                     position_text(text, std::max<std::size_t>(error.byte, 1) - 1),
                     text.empty() ? "the text is empty" : printable(reason));
  } catch (const typename Json::exception& error) {  // a number beyond all numbers
    fail_environment("{}: the text is not JSON: {}", source, printable(error.what()));
  }
  return value;
}

}  // namespace

json parse_json(std::string_view text, std::string_view source, const JsonLimits& limits) {
  return parse<json>(text, source, limits);
}

ordered_json parse_ordered_json(std::string_view text,
                                std::string_view source,
                                const JsonLimits& limits) {
  return parse<ordered_json>(text, source, limits);
}

void for_each_member(std::string_view text,
                     std::string_view source,
                     const JsonLimits& limits,
                     const TakeMember& take) {
  parse<json>(text, source, limits, &take);
}

void append_value(ordered_json& object, const std::string& name, ordered_json value) {
  if (object.is_null()) object = ordered_json::object();
  object.get_ref<ordered_json::object_t&>().emplace_back(name, std::move(value));
}

std::string json_line(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace dimred
