#include "data/tfrecord_format.h"

#include <limits>

#include "data/decode.h"
#include "data/tf_example.h"
#include "data/tfrecord.h"
#include "data/unread_files.h"
#include "support/errors.h"
#include "support/text.h"

namespace dimred::data {
namespace {

ImageExample example_in(Bytes message) {
  const auto example = parse_image_example(message);
  if (example.encoded.size() < smallest_image || !sniff(example.encoded))
    fail_environment(
        "[tfrecord] image/encoded needs a JPEG or PNG image, received {} bytes of other data{}",
        example.encoded.size(),
        remark_on_bytes(example.encoded));
  return example;
}

/// Whether image/format contradicts the bytes; none, and one that names neither form, does not.
bool is_misnamed(const ImageExample& example) {
  const auto format = lower_case(example.format);
  const bool png = sniff(example.encoded) == Encoding::png;
  return png ? format == "jpeg" || format == "jpg" : format == "png";
}

/// Reads the record at the beginning of `rest`, which is not empty: adds it to `scan` and returns
/// its size; 0: nothing behind it can be found.
std::size_t scan_record(Bytes rest, std::uint64_t offset, RecordIndex& scan) {
  try {
    const auto length = tfrecord_length(rest);
    if (!length || *length + tfrecord_overhead > rest.size()) {
      scan.add_problem(
          offset,
          formatted("needs a whole record{}, received only {} bytes before the end of the file",
                    length ? formatted(" of {} bytes", *length) : "",
                    rest.size()));
      return 0;
    }
    const auto size = *length + tfrecord_overhead;
    try {
      require_environment(size <= std::numeric_limits<std::uint32_t>::max(),
                          "[tfrecord] needs records of less than 4 GiB, received {} bytes",
                          size);
      first_tfrecord(rest);  // verifies it
      const auto example = example_in(payload_of(rest.first(size)));
      scan.entries.push_back(
          {.offset = offset, .size = static_cast<std::uint32_t>(size), .label = example.label});
      auto& shard = scan.shards.front();
      if (is_misnamed(example) && shard.misnamed++ == 0) shard.first_misnamed = offset;
    } catch (const std::runtime_error& error) {
      scan.add_problem(offset, rule_of(error));
    }
    return size;
  } catch (const std::runtime_error& error) {
    scan.add_problem(offset,
                     formatted("{}; no later record of this file can be found ({} bytes are lost)",
                               rule_of(error),
                               rest.size()));
    return 0;
  }
}

RecordIndex scan_tfrecord(Bytes file) {
  RecordIndex scan{.shards = {{}}};
  if (file.empty()) scan.add_problem(0, "needs at least one record, received an empty file");
  for (std::size_t offset = 0; offset < file.size();) {
    const auto size = scan_record(file.subspan(offset), offset, scan);
    if (size == 0) break;
    offset += size;
  }
  return scan;
}

}  // namespace

const RecordFormat tfrecord_format = {.name = "tfrecord", .scan = scan_tfrecord};

}  // namespace dimred::data
