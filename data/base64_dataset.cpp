#include <algorithm>
#include <charconv>
#include <limits>
#include <stdexcept>

#include "data/base64.h"
#include "data/decode.h"
#include "data/record_readers.h"
#include "support/errors.h"
#include "support/option_values.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> label_in(std::string_view text) {
  std::int64_t label = 0;
  const auto* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, label);
  if (error != std::errc() || last != end) return std::nullopt;
  return label;
}

/// The two fields of a line.
struct Line {
  std::string_view image;
  std::optional<std::int64_t> label;
};

Line split_line(std::string_view line, bool label_first) {
  const auto tab = line.find('\t');
  const auto first = line.substr(0, tab), second = line.substr(tab + 1);
  return label_first ? Line{second, label_in(first)} : Line{first, label_in(second)};
}

void scan_line(std::string_view line,
               std::uint64_t offset,
               bool label_first,
               std::vector<std::uint8_t>& scratch,
               ShardScan& scan) {
  const auto [image, label] = split_line(line, label_first);
  if (line.find('\t') == std::string_view::npos || !label) {
    scan.add_problem(offset,
                     formatted("needs {} as the first line of the file has it, received {}",
                               label_first ? "label<TAB>base64" : "base64<TAB>label",
                               printable(line)));
    return;
  }
  const auto begin = offset + static_cast<std::uint64_t>(image.data() - line.data());
  if (image.size() > std::numeric_limits<std::uint32_t>::max()) {
    scan.add_problem(begin,
                     formatted("needs less than 4 GiB of Base64, received {}", image.size()));
  } else if (const auto fault = from_base64(image, scratch)) {
    scan.add_problem(begin + fault->at, formatted("is no Base64: {}", fault->rule));
  } else if (scratch.size() < smallest_image || !sniff(scratch)) {
    scan.add_problem(
        begin,
        formatted("needs Base64 of a JPEG or PNG, received that of {} bytes of something else",
                  scratch.size()));
  } else {
    scan.entries.push_back(
        {.offset = begin, .size = static_cast<std::uint32_t>(image.size()), .label = *label});
  }
}

ShardScan scan_base64(std::span<const std::uint8_t> file) {
  ShardScan scan;
  if (file.empty()) scan.add_problem(0, "needs at least one line, received an empty file");
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  std::vector<std::uint8_t> scratch;
  std::optional<bool> label_first;
  for (std::size_t offset = 0; offset < text.size();) {
    auto line = text.substr(offset, text.find('\n', offset) - offset);
    const auto next = offset + line.size() + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!label_first && !line.empty()) {
      // An image has more characters than any label, so the shorter field is the label.
      const auto tab = std::min(line.find('\t'), line.size());
      label_first = tab < line.size() - tab && label_in(line.substr(0, tab)).has_value();
      scan.remark = *label_first ? "label<TAB>base64" : "base64<TAB>label";
    }
    if (!line.empty()) scan_line(line, offset, *label_first, scratch, scan);
    offset = next;
  }
  return scan;
}

class Base64Dataset : public RecordDataset {
 public:
  explicit Base64Dataset(const RecordOptions& options)
      : RecordDataset(base64_format, options, map_files("base64", options.files)) {}

  Sample read(std::int64_t index, std::vector<std::uint8_t>& scratch) const override {
    const auto& found = entry(index);
    const auto text = file_of(found).bytes().subspan(found.offset, found.size);
    file_of(found).fetch(text);
    const auto fault =
        from_base64({reinterpret_cast<const char*>(text.data()), text.size()}, scratch);
    const auto encoding = fault ? std::nullopt : sniff(scratch);
    if (!encoding)
      throw std::runtime_error(
          formatted("[base64] {}: the file has changed since it was opened", origin(index)));
    return {.encoding = *encoding, .bytes = scratch, .label = label_of(found)};
  }
};

}  // namespace

const RecordFormat base64_format = {.name = "base64", .scan = scan_base64};

std::unique_ptr<Dataset> open_base64(const RecordOptions& options) {
  auto parts = options;
  if (options.files.size() == 1 && options.files.front().extension() == ".txt")
    parts.files = read_file_list(options.files.front());
  return std::make_unique<Base64Dataset>(parts);
}

}  // namespace dimred::data
