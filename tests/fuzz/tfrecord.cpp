#include "data/tfrecord.h"

#include "data/tf_example.h"
#include "data/tfrecord_format.h"
#include "tests/fuzz/fuzz.h"

// A shard: framing, checksums, examples. Mutations rarely keep a checksum, so a first byte that is
// odd asks for the checksums to be set right before.
namespace {

void set_checksums(std::string& text) {
  for (std::size_t at = 0; text.size() - at >= 16;) {
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < 8; ++i)
      length |= std::uint64_t{static_cast<std::uint8_t>(text[at + i])} << 8 * i;
    length = std::min<std::uint64_t>(length, text.size() - at - 16);
    const auto record = dimred::data::to_tfrecord(std::string_view(text).substr(at + 12, length));
    text.replace(at, record.size(), record);
    at += record.size();
  }
}

}  // namespace

std::vector<std::string> dimred::fuzz::seeds() {
  std::vector<std::string> all;
  for (const auto& image : {small_png(), small_jpeg()}) {
    const auto record = data::to_tfrecord(data::to_message(
        {.encoded = {reinterpret_cast<const std::uint8_t*>(image.data()), image.size()},
         .format = "png",
         .label = 300,
         .class_name = "name"}));
    for (const char kind : {'\0', '\1'})
      all.push_back(std::string(1, kind).append(record).append(record));
  }
  return all;
}

int dimred::fuzz::parse(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string text(data + 1, data + size);
  if (data[0] % 2 == 1) set_checksums(text);
  const std::vector<std::uint8_t> file(text.begin(), text.end());
  dimred::data::tfrecord_format.scan(file);  // bears everything
  return 0;
}
