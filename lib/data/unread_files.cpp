#include "data/unread_files.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "data/inflated_file.h"
#include "support/atomic_file.h"
#include "support/formatted.h"
#include "support/list_files.h"
#include "support/text.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

struct Beginning {
  std::string_view bytes;
  const char* remark;
};

constexpr auto archive = "is an archive; unpack it and give the folder that it makes";
constexpr std::array beginnings{
    Beginning{"PAR1"sv, "is a Parquet file; write its images as files or TFRecord shards"},
    Beginning{"ARROW1"sv, "is an Arrow file; write its images as files or TFRecord shards"},
    Beginning{"\x89HDF\r\n"sv, "is an HDF5 file; write its arrays as images.npy and labels.npy"},
    Beginning{"MATLAB"sv, "is a MATLAB file; write its arrays as images.npy and labels.npy"},
    Beginning{"\x93NUMPY"sv,
              "is a NumPy array; the names that are read are images.npy, labels.npy"},
    Beginning{"RIFF"sv, "is a WebP image; convert it to JPEG or PNG"},
    Beginning{"GIF8"sv, "is a GIF image; convert it to JPEG or PNG"},
    Beginning{"BM"sv, "is a BMP image; convert it to JPEG or PNG"},
    Beginning{"II*\0"sv, "is a TIFF image; convert it to JPEG or PNG"},
    Beginning{"MM\0*"sv, "is a TIFF image; convert it to JPEG or PNG"},
    Beginning{"PK\x03\x04"sv, archive},
    Beginning{"BZh"sv, archive},
    Beginning{"\xFD"
              "7zXZ"sv,
              archive},
    Beginning{"7z\xBC\xAF"sv, archive}};

/// RFC 1950: deflate with a window of 32 KB, and a multiple of 31.
bool is_zlib(std::string_view bytes) {
  if (bytes.size() < 2) return false;
  const unsigned first = static_cast<unsigned char>(bytes[0]);
  const unsigned second = static_cast<unsigned char>(bytes[1]);
  return first == 0x78 && (first << 8 | second) % 31 == 0;
}

bool is_damaged_gz(const fs::path& file) {
  try {
    first_bytes(file, 12);
    return false;
  } catch (const std::exception&) {
    return true;
  }
}

bool is_pickle(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;
}

std::string_view by_name(std::string_view name) {
  if (name.find("-images-idx3-ubyte") != name.npos || name.find("-labels-idx1-ubyte") != name.npos)
    return "has the form of MNIST's files, but not their names: train-images-idx3-ubyte, "
           "train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte";
  if (name.starts_with("data_batch_") || name == "batches.meta")
    return "is of CIFAR's Python version; the binary version is read "
           "(cifar-10-binary.tar.gz, cifar-100-binary.tar.gz)";
  return {};
}

std::string_view by_content(const fs::path& file, std::string_view bytes) {
  const auto found = std::ranges::find_if(
      beginnings, [&](const Beginning& known) { return bytes.starts_with(known.bytes); });
  if (found != beginnings.end()) return found->remark;
  if (bytes.size() >= 262 && bytes.substr(257, 5) == "ustar"sv) return archive;
  if (is_zlib(bytes)) return "is compressed with zlib; shards are read plain or compressed as GZIP";
  if (bytes.starts_with("\x1F\x8B"sv) && is_damaged_gz(file))
    return "is gz that is damaged or cut off";
  if (bytes.starts_with("\x1F\x8B"sv) && lower_case(file.string()).ends_with(".tar.gz"))
    return archive;
  if (is_pickle(bytes))
    return "is a pickle, which could run code and is not read; write its arrays as images.npy "
           "and labels.npy";
  return {};
}

}  // namespace

std::string remark_on(const fs::path& file) {
  std::string_view remark = by_name(lower_case(file.filename().string()));
  std::string bytes;
  if (remark.empty()) {
    try {
      const InputFile input(file);
      bytes = input.part(0, std::min<std::int64_t>(512, input.size()));
    } catch (const std::exception&) {
      return {};  // the caller says what is wrong with it
    }
    remark = by_content(file, bytes);
  }
  return remark.empty() ? placeholder_remark(bytes) : formatted(", which {}", remark);
}

std::string remark_on_files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  int left = 64;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(folder, error)) {
    if (item.is_regular_file(error)) files.push_back(item.path());
    if (--left == 0) break;
  }
  sort_naturally(files);
  for (const auto& file : files)
    if (const auto remark = remark_on(file); !remark.empty())
      return formatted("; there is {}{}", file.filename(), remark);
  for (const auto& file : files)
    if (file.filename().string().find(".tfrecord") != std::string::npos ||
        file.filename().string().find("-of-0") != std::string::npos)
      return formatted(
          "; there is {}, which does not begin as a TFRecord shard does: with a length and the "
          "CRC-32C of it",
          file.filename());
  return {};
}

}  // namespace dimred::data
