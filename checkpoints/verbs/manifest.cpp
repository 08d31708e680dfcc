#include "checkpoints/verbs/manifest.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "support/atomic_file.h"
#include "support/byte_order_mark.h"
#include "support/counted.h"
#include "support/errors.h"
#include "support/list_files.h"
#include "support/parallel.h"
#include "support/printable.h"
#include "support/sha256.h"
#include "support/text.h"

namespace dimred::verbs {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view tensor_mark = "# tensor ";
constexpr std::size_t digest_digits = 64;

std::string escaped_name(std::string_view name) {
  std::string text;
  for (const char letter : name) {
    if (letter == '\\') text += "\\\\";
    if (letter == '\n') text += "\\n";
    if (letter == '\r') text += "\\r";
    if (letter != '\\' && letter != '\n' && letter != '\r') text += letter;
  }
  return text;
}

/// nullopt: a backslash before another letter, or before none.
std::optional<std::string> unescaped_name(std::string_view text) {
  std::string name;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      name += text[i];
      continue;
    }
    const char next = ++i < text.size() ? text[i] : '\0';
    if (next != '\\' && next != 'n' && next != 'r') return std::nullopt;
    name += next == 'n' ? '\n' : next == 'r' ? '\r' : '\\';
  }
  return name;
}

/// As the argument of a program: "-" alone would be standard input.
std::string file_line(const FileDigest& file) {
  const auto name = (file.name.starts_with('-') ? "./" : "") + file.name;
  const auto text = escaped_name(name);
  return formatted("{}{}  {}\n", text == name ? "" : "\\", file.sha256, text);
}

std::string manifest_shape(const std::vector<std::int64_t>& shape) {
  return formatted("[{}]", joined(shape, ",", [](auto size) { return std::to_string(size); }));
}

/// The digest that a text begins with, in lower case; empty: it begins with none.
std::string digest_at_start(std::string_view text) {
  const auto is_hexadecimal = [](char letter) {
    return std::string_view("0123456789abcdefABCDEF").find(letter) != std::string_view::npos;
  };
  const auto digits = text.substr(0, digest_digits);
  const bool whole = digits.size() == digest_digits && std::ranges::all_of(digits, is_hexadecimal);
  return whole ? lower_case(digits) : "";
}

std::optional<FileDigest> parsed_file(std::string_view line) {
  const bool escapes = line.starts_with('\\');
  if (escapes) line.remove_prefix(1);
  FileDigest file{.sha256 = digest_at_start(line)};
  if (file.sha256.empty()) return std::nullopt;
  line.remove_prefix(digest_digits);
  if (!line.starts_with("  ") && !line.starts_with(" *")) return std::nullopt;
  line.remove_prefix(2);
  const auto name = escapes ? unescaped_name(line) : std::string(line);
  if (!name || name->empty()) return std::nullopt;
  file.name = fs::path(*name).lexically_normal().string();
  return file;
}

std::optional<std::vector<std::int64_t>> parsed_shape(std::string_view text) {
  if (!text.starts_with('[') || !text.ends_with(']')) return std::nullopt;
  std::vector<std::int64_t> shape;
  for (const auto& part : split_list(text.substr(1, text.size() - 2))) {
    const auto size = number_in<std::int64_t>(part);
    if (!size || *size < 0) return std::nullopt;
    shape.push_back(*size);
  }
  return shape;
}

/// The text behind the mark: DIGEST DTYPE [2,3] NAME.
std::optional<TensorDigest> parsed_tensor(std::string_view text) {
  TensorDigest tensor{.sha256 = digest_at_start(text)};
  if (tensor.sha256.empty() || text.substr(digest_digits, 1) != " ") return std::nullopt;
  text.remove_prefix(digest_digits + 1);
  const auto after_type = text.find(' ');
  const auto after_shape = after_type == text.npos ? text.npos : text.find(' ', after_type + 1);
  if (after_shape == text.npos) return std::nullopt;
  tensor.dtype = text.substr(0, after_type);
  const auto shape = parsed_shape(text.substr(after_type + 1, after_shape - after_type - 1));
  const auto name = unescaped_name(text.substr(after_shape + 1));
  if (!shape || !name) return std::nullopt;
  tensor.shape = *shape;
  tensor.name = *name;
  return tensor;
}

/// Sorts by name. Throws for a name that is there twice.
template <class Digest>
void sort_by_name(std::vector<Digest>& digests, std::string_view source) {
  std::ranges::sort(digests, {}, &Digest::name);
  const auto twice = std::ranges::adjacent_find(digests, {}, &Digest::name);
  if (twice != digests.end()) refuse("{}: {}: given twice", source, printable(twice->name));
}

/// Regular files, also behind links, of a folder and of those below it that are no links.
std::vector<fs::path> visible_files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (auto item = fs::recursive_directory_iterator(folder);
       item != fs::recursive_directory_iterator();
       ++item) {
    if (item->path().filename().string().starts_with('.')) {
      item.disable_recursion_pending();
    } else if (item->is_regular_file() && !is_unfinished(*item)) {
      files.push_back(item->path());
    }
  }
  return files;
}

/// Whether a normal name leads out of the folder that names are relative to.
bool leaves_folder(const fs::path& name) {
  return name.is_absolute() || (!name.empty() && *name.begin() == "..");
}

/// Whether two paths lead to one file, which may not be there.
bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) ||
         fs::absolute(a).lexically_normal() == fs::absolute(b).lexically_normal();
}

std::string tensor_difference(const TensorDigest& expected, const TensorDigest& now) {
  if (now.dtype != expected.dtype) return formatted("{}, was {}", now.dtype, expected.dtype);
  if (now.shape != expected.shape)
    return formatted("shape {}, was {}", manifest_shape(now.shape), manifest_shape(expected.shape));
  return now.sha256 == expected.sha256 ? "" : "other values";
}

std::string file_difference(const FileDigest& expected, const FileDigest& now) {
  return now.sha256 == expected.sha256 ? "" : "changed";
}

/// A line for each name whose `difference` says something, or which one side has alone.
template <class Digest, class Difference>
std::vector<std::string> differences_of(std::string_view what,
                                        const std::vector<Digest>& expected,
                                        const std::vector<Digest>& now,
                                        const Difference& difference) {
  std::map<std::string_view, std::pair<const Digest*, const Digest*>> pairs;
  for (const auto& digest : expected) pairs[digest.name].first = &digest;
  for (const auto& digest : now) pairs[digest.name].second = &digest;
  std::vector<std::string> lines;
  for (const auto& [name, both] : pairs) {
    const auto& [before, after] = both;
    const auto said = before == nullptr  ? "not listed in the manifest"
                      : after == nullptr ? std::string("missing")
                                         : difference(*before, *after);
    if (!said.empty()) lines.push_back(formatted("{}{}: {}", what, printable(name), said));
  }
  return lines;
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  auto text = formatted("{}; sha256sum -c reads it in the folder that it is of\n", manifest_head);
  for (const auto& file : manifest.files) text += file_line(file);
  for (const auto& [name, dtype, shape, sha256] : manifest.tensors)
    text += formatted(
        "{}{} {} {} {}\n", tensor_mark, sha256, dtype, manifest_shape(shape), escaped_name(name));
  return text;
}

Manifest parse_manifest(std::string_view text, std::string_view source) {
  Manifest manifest;
  text = without_byte_order_mark(text, source);
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool comment = line.starts_with('#') && !line.starts_with(tensor_mark);
    if (trimmed(line).empty() || comment) continue;
    const auto refuse_line = [&](std::string_view form) {
      refuse("{}:{}: needs {}, received {}",
             source,
             number,
             form,
             printable(std::string(line.substr(0, 2 * digest_digits))));
    };
    if (line.starts_with('#')) {
      auto tensor = parsed_tensor(line.substr(tensor_mark.size()));
      if (!tensor) refuse_line("# tensor DIGEST DTYPE [SHAPE] NAME");
      manifest.tensors.push_back(std::move(*tensor));
    } else {
      auto file = parsed_file(line);
      if (!file) refuse_line("a line of sha256sum (DIGEST and NAME)");
      if (leaves_folder(file->name)) refuse_line("a name within the checkpoint's folder");
      manifest.files.push_back(std::move(*file));
    }
  }
  sort_by_name(manifest.files, source);
  sort_by_name(manifest.tensors, source);
  return manifest;
}

std::vector<std::string> manifest_files(const fs::path& folder,
                                        bool whole_folder,
                                        const std::vector<fs::path>& own,
                                        const fs::path& manifest,
                                        const std::vector<FileDigest>& listed) {
  auto files = whole_folder ? visible_files_below(folder) : std::vector<fs::path>();
  for (const auto& file : own)
    if (fs::is_regular_file(file)) files.push_back(file);
  std::set<std::string> names;
  for (const auto& file : files)
    if (manifest.empty() || !is_same_file(file, manifest))
      names.insert(fs::absolute(file).lexically_relative(fs::absolute(folder)).string());
  for (const auto& file : listed)
    if (fs::is_regular_file(folder / file.name)) names.insert(file.name);
  return {names.begin(), names.end()};
}

std::vector<FileDigest> digest_files(const fs::path& folder,
                                     const std::vector<std::string>& names,
                                     const Reading& reading) {
  std::vector<FileDigest> digests;
  for (const auto& name : names) {
    digests.push_back({.name = name});
    expect_bytes(reading.progress, static_cast<std::int64_t>(fs::file_size(folder / name)));
  }
  in_parallel(std::ssize(digests), reading.thread_count(), [&](std::int64_t i) {
    Sha256Stream stream;
    InputFile(folder / digests[i].name).read(0, [&](ByteView bytes) {
      stream.update(bytes);
      reading.count(std::ssize(bytes));
    });
    digests[i].sha256 = stream.hex();
  });
  return digests;
}

std::vector<TensorDigest> digest_tensors(const checkpoints::Checkpoint& checkpoint,
                                         const Reading& reading) {
  std::vector<TensorDigest> digests;
  for (const auto& tensor : checkpoint.tensors) {
    digests.push_back({tensor.name, tensor.dtype, tensor.shape, ""});
    expect_bytes(reading.progress, tensor.bytes());
  }
  // The largest first, so that no thread begins one when the others are done.
  std::vector<std::size_t> order(digests.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, std::greater<>(), [&](std::size_t i) { return checkpoint.tensors[i].bytes(); });
  const checkpoints::TensorReader reader(checkpoint);
  in_parallel(std::ssize(order), reading.thread_count(), [&](std::int64_t at) {
    const auto& tensor = checkpoint.tensors[order[at]];
    Sha256Stream stream;
    for (const auto& block : blocks_of(tensor)) {
      const auto bytes = block_buffer(block.bytes);
      reader.read(tensor, block.first, bytes);
      stream.update(bytes);
      reading.count(block.bytes);
    }
    digests[order[at]].sha256 = stream.hex();
  });
  std::ranges::sort(digests, {}, &TensorDigest::name);
  return digests;
}

CheckReport differences(const Manifest& expected, const Manifest& now) {
  CheckReport result;
  result.faults = differences_of("", expected.files, now.files, file_difference);
  if (expected.tensors.empty()) return result;
  auto tensors = differences_of("tensor ", expected.tensors, now.tensors, tensor_difference);
  if (tensors.empty() && !result.faults.empty())
    result.remarks.push_back(
        formatted("the files differ from the manifest; the values of {} are the same",
                  expected.tensors.size() == 1
                      ? "the tensor"
                      : formatted("all {} tensors", count_text(std::ssize(expected.tensors)))));
  std::ranges::move(tensors, std::back_inserter(result.faults));
  return result;
}

}  // namespace dimred::verbs
