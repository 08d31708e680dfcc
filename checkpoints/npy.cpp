#include "checkpoints/npy.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <system_error>

#include "checkpoints/shape.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/text.h"

namespace dimred::checkpoints {
namespace {

static_assert(std::endian::native == std::endian::little, "npy data is read as it lies in memory");

constexpr std::string_view npy_magic = "\x93NUMPY";
constexpr std::int64_t longest_header = 1 << 16;  // NumPy itself reads no more than 10,000
constexpr std::size_t most_dimensions = 64;       // as NumPy

/// Reads a Python dict literal of the three keys that NumPy writes; nothing else is a header.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::filesystem::path& path)
      : rest_(text), path_(path) {}

  NpyHeader read(std::initializer_list<std::string_view> types) {
    expect('{');
    while (!accept('}')) {
      read_entry();
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!rest_.empty())
      fail("has text other than spaces after the header's dictionary", rest_.substr(0, 20));
    if (!type_ || !fortran_ || !shape_)
      fail("needs descr, fortran_order and shape in the header", "fewer");
    const auto known = formatted("'{}'", joined(types, "' or '"));
    if (std::ranges::find(types, *type_) == types.end())
      fail("needs dtype " + known + (known.starts_with("'<f4'") ? " (float32 or float64)" : ""),
           *type_);
    return {.shape = *shape_, .fortran_order = *fortran_, .item_bytes = type_->back() - '0'};
  }

 private:
  [[noreturn]] void fail(std::string_view rule, std::string_view received) const {
    fail_environment("[npy] '{}' {}, received '{}'", path_, rule, received);
  }

  void read_entry() {
    const auto key = quoted();
    expect(':');
    if (key == "descr" && !type_) {
      type_ = quoted();
    } else if (key == "fortran_order" && !fortran_) {
      fortran_ = boolean();
    } else if (key == "shape" && !shape_) {
      shape_ = tuple();
    } else {
      fail("needs the keys descr, fortran_order and shape, once each", key);
    }
  }

  void skip_space() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size()));
  }

  bool accept(char symbol) {
    skip_space();
    if (!rest_.starts_with(symbol)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char symbol) {
    if (!accept(symbol))
      fail(formatted("needs the character '{}' in the header", symbol), rest_.substr(0, 20));
  }

  std::string quoted() {
    skip_space();
    const char quote = rest_.empty() ? '\0' : rest_.front();
    if (quote != '\'' && quote != '"')
      fail("needs a quoted text in the header", rest_.substr(0, 20));
    const auto end = rest_.find(quote, 1);
    if (end == std::string_view::npos)
      fail("needs a closing quote in the header", rest_.substr(0, 20));
    std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }

  bool boolean() {
    skip_space();
    for (const std::string_view word : {"True", "False"}) {
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return word == "True";
    }
    fail("needs True or False as fortran_order", rest_.substr(0, 20));
  }

  std::int64_t number() {
    skip_space();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < 0)
      fail("needs dimensions >= 0 in the shape", rest_.substr(0, 24));
    rest_.remove_prefix(end - rest_.data());
    return value;
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> values;
    expect('(');
    while (!accept(')')) {
      if (values.size() == most_dimensions) fail("needs a shape of at most 64 dimensions", "more");
      values.push_back(number());
      if (accept(',')) continue;
      expect(')');
      if (values.size() == 1)
        fail("needs a comma in a shape of one dimension, as in (5,)", formatted("{}", values[0]));
      break;
    }
    return values;
  }

  std::string_view rest_;
  const std::filesystem::path& path_;
  std::optional<std::string> type_;
  std::optional<bool> fortran_;
  std::optional<std::vector<std::int64_t>> shape_;
};

}  // namespace

std::string npy_shape_text(const std::vector<std::int64_t>& shape) {
  const auto extents = joined(shape, ", ", [](std::int64_t extent) { return printed(extent); });
  return formatted("({}{})", extents, shape.size() == 1 ? "," : "");
}

NpyHeader read_npy_header(const std::filesystem::path& path,
                          std::initializer_list<std::string_view> types) {
  const InputFile file(path);
  const auto require_file = [&path]<class... Values>(
                                bool holds,
                                std::type_identity_t<FormatString<sizeof...(Values)>> rule,
                                const Values&... values) {
    if (!holds) fail_environment("[npy] '{}' {}", path, formatted(rule, values...));
  };
  require_file(file.size() >= 12, "needs at least 12 bytes, received {}", file.size());
  const auto start = file.part(0, 12);
  const bool is_npy = start.starts_with(npy_magic);
  require_file(is_npy,
               "needs to be a .npy file, which starts with \\x93NUMPY{}",
               is_npy ? "" : file.placeholder_remark());
  const int version = static_cast<unsigned char>(start[6]);
  require_file(version >= 1 && version <= 3 && start[7] == 0,
               "needs format version 1.0, 2.0 or 3.0, received {}.{}",
               version,
               static_cast<int>(start[7]));
  const std::int64_t begin = version == 1 ? 10 : 12;
  std::int64_t length = 0;
  std::memcpy(&length, start.data() + 8, begin - 8);  // little-endian
  require_file(length <= longest_header && length <= file.size() - begin,
               "is cut off or damaged: the header needs {} bytes, received {}",
               length,
               std::min(longest_header, file.size() - begin));
  const auto text = file.part(begin, length);
  auto header = HeaderReader(text, path).read(types);
  header.data_offset = begin + length;
  const auto bytes = product(header.shape, header.item_bytes);
  require_file(bytes.has_value(),
               "needs a shape of less than 2^63 bytes, received {}",
               npy_shape_text(header.shape));
  require_file(*bytes == file.size() - header.data_offset,
               "needs {} bytes of data for shape {}, received {}",
               *bytes,
               npy_shape_text(header.shape),
               file.size() - header.data_offset);
  return header;
}

std::string npy_header_bytes(const std::vector<std::int64_t>& shape, int item_bytes) {
  check(item_bytes == 4 || item_bytes == 8, "npy values have 4 or 8 bytes");
  auto text = formatted("{{'descr': '<f{}', 'fortran_order': False, 'shape': {}, }}",
                        item_bytes,
                        npy_shape_text(shape));
  const auto unpadded = 10 + text.size() + 1;
  text.append((64 - unpadded % 64) % 64, ' ');
  text += '\n';
  check(text.size() < 65536, "an npy header of version 1 is shorter than 64 KiB");
  const auto low = static_cast<char>(text.size() % 256);
  const auto high = static_cast<char>(text.size() / 256);
  return std::string(npy_magic) + '\1' + '\0' + low + high + text;
}

}  // namespace dimred::checkpoints
