#include "data/tf_example.h"

#include "support/bytes.h"
#include "support/errors.h"
#include "support/printable.h"
#include "support/protobuf_message.h"
#include "support/text.h"

namespace dimred::data {
namespace {

using protobuf::Field;
using protobuf::Wire;

/// Errors name this format.
struct ExampleFields : protobuf::Fields {
  ExampleFields(Bytes message, const std::uint8_t* origin)
      : protobuf::Fields(message, origin, "tf.Example") {}
};

void add_integer(Feature& feature, std::uint64_t value) {
  if (feature.count++ == 0) feature.integer = value;
}

void read_list(const Field& list, const std::uint8_t* origin, Feature& feature) {
  ExampleFields fields(list.content, origin);
  for (Field value; fields.next(value);) {
    if (value.number != 1) continue;
    if (feature.kind == Feature::Kind::bytes && value.wire == Wire::delimited) {
      if (feature.count++ == 0) feature.bytes = value.content;
    } else if (feature.kind == Feature::Kind::integers && value.wire == Wire::varint) {
      add_integer(feature, value.value);
    } else if (feature.kind == Feature::Kind::integers && value.wire == Wire::delimited) {
      for (ExampleFields packed(value.content, origin); !packed.empty();)
        add_integer(feature, packed.varint());
    } else if (feature.kind == Feature::Kind::floats) {
      feature.count += value.wire == Wire::delimited ? std::ssize(value.content) / 4 : 1;
    }
  }
}

/// In a oneof the last one set counts; lists of one kind that come in parts are one list.
Feature read_feature(Bytes content, const std::uint8_t* origin) {
  Feature feature;
  ExampleFields fields(content, origin);
  for (Field list; fields.next(list);) {
    if (list.number > 3 || list.wire != Wire::delimited) continue;
    const auto kind = static_cast<Feature::Kind>(list.number);
    if (kind != feature.kind) feature = {.kind = kind};
    read_list(list, origin, feature);
  }
  return feature;
}

/// For messages: "none", "1 byte string (7)", "3 floats".
std::string described(const Feature& feature) {
  if (feature.kind == Feature::Kind::none) return "none";
  const bool is_bytes = feature.kind == Feature::Kind::bytes;
  const auto* const other = feature.kind == Feature::Kind::integers ? "integer" : "float";
  constexpr std::size_t longest = 20;
  const auto text = text_of(feature.bytes);
  return formatted("{} {}{}{}",
                   feature.count,
                   is_bytes ? "byte string" : other,
                   feature.count == 1 ? "" : "s",
                   is_bytes && feature.count > 0 && text.size() <= longest
                       ? formatted(" ({})", printable(text))
                       : "");
}

std::string field(int number, std::string_view content) {
  return protobuf::Message().bytes(number, content).text();
}

std::string map_entry(std::string_view name, std::string_view feature) {
  return field(1, field(1, name) + field(2, feature));
}

std::string bytes_entry(std::string_view name, std::string_view value) {
  return map_entry(name, field(1, field(1, value)));
}

std::string integer_entry(std::string_view name, std::int64_t value) {
  return map_entry(name, field(3, field(1, protobuf::varint(value))));
}

/// The features of a record that lacks the one looked for; empty where it has that one.
std::string names_beside(Bytes message, const Feature& looked_for) {
  if (looked_for.kind != Feature::Kind::none) return {};
  constexpr std::size_t most = 6;
  std::vector<std::string> names;
  visit_features(message, [&](std::string_view name, const Feature&) {
    if (names.size() < most) names.push_back(printable(name));
  });
  return names.empty() ? "" : formatted(" (the record has {})", name_list(names));
}

}  // namespace

void visit_features(Bytes message,
                    const std::function<void(std::string_view, const Feature&)>& visit) {
  const auto* origin = message.data();
  ExampleFields example(message, origin);
  for (Field features; example.next(features);) {
    if (features.number != 1 || features.wire != Wire::delimited) continue;
    ExampleFields entries(features.content, origin);
    for (Field entry; entries.next(entry);) {
      if (entry.number != 1 || entry.wire != Wire::delimited) continue;
      std::string_view name;
      Feature feature;
      ExampleFields parts(entry.content, origin);
      for (Field part; parts.next(part);) {
        if (part.wire != Wire::delimited) continue;
        if (part.number == 1) name = text_of(part.content);
        if (part.number == 2) feature = read_feature(part.content, origin);
      }
      visit(name, feature);
    }
  }
}

ImageExample parse_image_example(Bytes message) {
  ImageExample example;
  Feature encoded, label;
  visit_features(message, [&](std::string_view name, const Feature& feature) {
    if (name == "image/encoded") encoded = feature;
    if (name == "image/class/label") label = feature;
    if (name == "image/format") example.format = text_of(feature.bytes);
    if (name == "image/class/text" && feature.count > 0)
      example.class_name = text_of(feature.bytes);
  });
  require_environment(encoded.kind == Feature::Kind::bytes && encoded.count == 1,
                      "[tf.Example] needs the feature image/encoded with one byte string, received "
                      "{}{}",
                      described(encoded),
                      names_beside(message, encoded));
  require_environment(label.kind == Feature::Kind::integers && label.count == 1,
                      "[tf.Example] needs the feature image/class/label with one integer, received "
                      "{}{}",
                      described(label),
                      names_beside(message, label));
  example.encoded = encoded.bytes;
  example.label = label.integer;
  return example;
}

std::string to_message(const ImageExample& example) {
  std::string features = integer_entry("image/class/label", example.label);
  if (example.class_name) features += bytes_entry("image/class/text", *example.class_name);
  features += bytes_entry("image/encoded", text_of(example.encoded));
  features += bytes_entry("image/format", example.format);
  return field(1, features);
}

}  // namespace dimred::data
