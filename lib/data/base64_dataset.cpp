#include <algorithm>
#include <limits>
#include <string_view>

#include "data/base64.h"
#include "data/decode.h"
#include "data/record_readers.h"
#include "data/shard_names.h"
#include "data/splits.h"
#include "data/unread_files.h"
#include "support/atomic_file.h"
#include "support/byte_order_mark.h"
#include "support/counted.h"
#include "support/errors.h"
#include "support/printable.h"
#include "support/text.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

constexpr auto list_name = "file_list.txt";

/// The two fields of a line.
struct ListedSample {
  std::string_view image;
  std::optional<std::int64_t> label;
};

ListedSample split_line(std::string_view line, bool label_first) {
  const auto tab = line.find('\t');
  const auto first = line.substr(0, tab), second = line.substr(tab + 1);
  return label_first ? ListedSample{second, number_in<std::int64_t>(first)}
                     : ListedSample{first, number_in<std::int64_t>(second)};
}

/// The broken rule of a line whose label is no number where the file has its labels.
std::string rule_on_label(std::string_view line, bool label_first) {
  if (split_line(line, !label_first).label)
    return formatted("needs the order {}, as in the first line of the file, received {}",
                     label_first ? "label<TAB>base64" : "base64<TAB>label",
                     printable(line));
  const auto tab = line.find('\t');
  const auto first = line.substr(0, tab), second = line.substr(tab + 1);
  return formatted("needs a whole number without blanks as label, received {}",
                   printable(first.size() < second.size() ? first : second));
}

void scan_line(std::string_view line,
               std::uint64_t offset,
               bool label_first,
               std::vector<std::uint8_t>& scratch,
               RecordIndex& scan) {
  const auto tabs = std::ranges::count(line, '\t');
  if (tabs != 1)
    return scan.add_problem(
        offset,
        formatted("needs one tab, between the image in Base64 and its label, received {} in {}",
                  counted(tabs, "tab"),
                  printable(line)));
  const auto [image, label] = split_line(line, label_first);
  if (!label) return scan.add_problem(offset, rule_on_label(line, label_first));
  const auto begin = offset + (image.data() - line.data());
  if (image.size() > std::numeric_limits<std::uint32_t>::max()) {
    scan.add_problem(
        begin, formatted("needs less than 4 GiB of Base64, received {} characters", image.size()));
  } else if (const auto fault = from_base64(image, scratch)) {
    scan.add_problem(begin + fault->at, formatted("the text is not valid Base64: {}", fault->rule));
  } else if (scratch.size() < smallest_image || !sniff(scratch)) {
    scan.add_problem(
        begin,
        formatted("needs a JPEG or PNG image in Base64, received {} bytes of other data{}",
                  scratch.size(),
                  remark_on_bytes(scratch)));
  } else {
    scan.entries.push_back(
        {.offset = begin, .size = static_cast<std::uint32_t>(image.size()), .label = *label});
  }
}

RecordIndex scan_base64(Bytes file) {
  RecordIndex scan{.shards = {{}}};
  if (file.empty()) scan.add_problem(0, "needs at least one line, received an empty file");
  const auto text = text_of(file);
  std::vector<std::uint8_t> scratch;
  std::optional<bool> label_first;
  const std::size_t begin = text.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
  for (std::size_t offset = begin; offset < text.size();) {
    auto line = text.substr(offset, text.find('\n', offset) - offset);
    const auto next = offset + line.size() + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!label_first && !line.empty()) {
      // An image has more characters than any label, so the shorter field is the label.
      const auto tab = std::min(line.find('\t'), line.size());
      label_first =
          tab < line.size() - tab && number_in<std::int64_t>(line.substr(0, tab)).has_value();
      scan.shards.front().remark = *label_first ? "label<TAB>base64" : "base64<TAB>label";
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
    const auto fault = from_base64(text_of(text), scratch);
    const auto encoding = fault ? std::nullopt : sniff(scratch);
    if (!encoding)
      fail_environment(
          "[base64] {}: the file changed after dimred opened it; start the command again",
          origin(index));
    return {.encoding = *encoding, .bytes = scratch, .label = label_of(found)};
  }
};

std::vector<fs::path> base64_files(const DatasetRequest& request) {
  const auto& path = request.path;
  const bool all = request.takes_all();
  if (fs::is_regular_file(path) && all) return {path};
  if (const auto inner = folder_with(list_name, path, request.train, /*itself=*/false);
      !inner.empty())
    return {inner / list_name};
  if (all && fs::is_regular_file(path / list_name)) return {path / list_name};
  if (all && !fs::is_directory(path)) return find_shards(path, request.train);
  return {};
}

bool holds_base64(const fs::path& path) {
  if (!fs::is_directory(path)) return path.filename() == list_name;
  return !folder_with(list_name, path, /*train=*/true, /*itself=*/true).empty();
}

/// Whether the first or second line of a file, which may have a heading, has the beginning of a
/// JPEG or PNG image as Base64 in its first or second field. A table with commas is none of
/// the reader's: it may describe the images beside it.
bool begins_with_base64(const fs::path& file) {
  constexpr std::int64_t head_bytes = 512;
  static constexpr std::string_view jpeg = "/9j/", png = "iVBORw0KGgo", separators = "\t;";
  std::string head;
  try {
    const InputFile input(file);
    head = input.part(0, std::min(head_bytes, input.size()));
  } catch (const std::exception&) {
    return false;  // for its reader to refuse, if it has one
  }
  std::string_view text = head;
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  const auto is_image = [](std::string_view field) {
    if (field.starts_with('"')) field.remove_prefix(1);
    return field.starts_with(jpeg) || field.starts_with(png);
  };
  for (int line = 0; line < 2; ++line) {
    const auto first = text.substr(0, text.find('\n'));
    const auto separator = first.find_first_of(separators);
    if (is_image(first) || (separator != first.npos && is_image(first.substr(separator + 1))))
      return true;
    text.remove_prefix(std::min(first.size() + 1, text.size()));
  }
  return false;
}

bool lies_beside_base64(const fs::path& path) {
  return holds_base64(path) || holds_a_file(path, begins_with_base64);
}

}  // namespace

const RecordFormat base64_format = {.name = "base64", .scan = scan_base64};

std::unique_ptr<Dataset> open_base64(const RecordOptions& options) {
  auto parts = options;
  if (options.files.size() == 1 && options.files.front().extension() == ".txt")
    parts.files = read_file_list(options.files.front());
  return std::make_unique<Base64Dataset>(parts);
}

namespace formats {
DatasetFormat base64() {
  return {.holds = holds_base64,
          .open = [](const DatasetRequest& request) -> std::unique_ptr<Dataset> {
            const auto options = record_options(request, base64_files(request));
            return options.files.empty() ? nullptr : open_base64(options);
          },
          .train_files = list_name,
          .test_files = list_name,
          .has_records = true,
          .lies_beside = lies_beside_base64};
}
}  // namespace formats

}  // namespace dimred::data
