#include "data/unread_files.h"

#include <algorithm>
#include <array>
#include <regex>
#include <string_view>

#include "data/inflated_file.h"
#include "data/splits.h"
#include "data/tfrecord.h"
#include "support/atomic_file.h"
#include "support/formatted.h"
#include "support/list_files.h"
#include "support/text.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

/// Bytes at a place in a file's head, and what the file is then.
struct Mark {
  std::string_view bytes;
  const char* remark;
  std::size_t at = 0;
};

constexpr auto archive = "is an archive; unpack the archive and give the unpacked folder";
constexpr auto avif = "is an AVIF image; convert it to JPEG or PNG";
constexpr auto heic = "is a HEIC image; convert it to JPEG or PNG";
constexpr auto jpeg_xl = "is a JPEG XL image; convert it to JPEG or PNG";
constexpr auto jpeg_2000 = "is a JPEG 2000 image; convert it to JPEG or PNG";
constexpr std::array marks{
    Mark{"PAR1"sv, "is a Parquet file; write its images as files or TFRecord shards"},
    Mark{"ARROW1"sv, "is an Arrow file; write its images as files or TFRecord shards"},
    Mark{"{\"header_size\":"sv,
         "is a MindRecord file; write its images as files or TFRecord shards",
         8},
    Mark{"\xEF\xBE\xAD\xDE"sv, "is an LMDB file; write its images as files or TFRecord shards", 16},
    Mark{"\xDE\xC0\xEF\xBE"sv, "is an LMDB file; write its images as files or TFRecord shards", 16},
    Mark{"\x0A\x23\xD7\xCE"sv, "is a RecordIO file; write its images as files or TFRecord shards"},
    Mark{"SQLite format 3"sv, "is an SQLite file, which has no images"},
    Mark{"\x89HDF\r\n"sv, "is an HDF5 file; write its arrays as images.npy and labels.npy"},
    Mark{"MATLAB"sv, "is a MATLAB file; write its arrays as images.npy and labels.npy"},
    Mark{"\x93NUMPY"sv,
         "is a NumPy array; dimred reads arrays with the names images.npy and labels.npy"},
    Mark{"WEBP"sv, "is a WebP image; convert it to JPEG or PNG", 8},
    Mark{"GIF8"sv, "is a GIF image; convert it to JPEG or PNG"},
    Mark{"BM"sv, "is a BMP image; convert it to JPEG or PNG"},
    Mark{"II*\0"sv, "is a TIFF image; convert it to JPEG or PNG"},
    Mark{"MM\0*"sv, "is a TIFF image; convert it to JPEG or PNG"},
    Mark{"8BPS"sv, "is a Photoshop image; convert it to JPEG or PNG"},
    Mark{"DICM"sv, "is a DICOM image; convert it to JPEG or PNG", 128},
    Mark{"ftypavi"sv, avif, 4},
    Mark{"ftyphei"sv, heic, 4},
    Mark{"ftyphev"sv, heic, 4},
    Mark{"ftypmif1"sv, heic, 4},
    Mark{"ftypmsf1"sv, heic, 4},
    Mark{"JXL \r\n\x87\n"sv, jpeg_xl, 4},
    Mark{"\xFF\x0A"sv, jpeg_xl},
    Mark{"jP  \r\n\x87\n"sv, jpeg_2000, 4},
    Mark{"\xFF\x4F\xFF\x51"sv, jpeg_2000},
    Mark{"PK\x03\x04"sv, archive},
    Mark{"BZh"sv, archive},
    Mark{"\xFD"
         "7zXZ"sv,
         archive},
    Mark{"7z\xBC\xAF"sv, archive},
    Mark{"ustar"sv, archive, 257}};

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

/// Whether a reader takes the file by its name, with the others of its data set.
bool is_name_of_ours(std::string_view name) {
  static const std::regex names(
      "((train|t10k)-(images[-.]idx3|labels[-.]idx1)-ubyte(\\.gz)?)|(images|labels)\\.npy|"
      "((data_batch_[1-5]|test_batch|train|test)\\.bin)");
  return std::regex_match(name.begin(), name.end(), names);
}

std::string_view by_name(std::string_view name) {
  static const std::regex mnist("(images[-.]idx3|labels[-.]idx1)-ubyte");
  if (std::regex_search(name.begin(), name.end(), mnist))
    return "is like a file of MNIST, but has another name; MNIST's names are "
           "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
           "t10k-labels-idx1-ubyte";
  if (name == "batches.meta" || (name.starts_with("data_batch_") && !name.ends_with(".bin")))
    return "belongs to CIFAR's Python version; dimred reads the binary version "
           "(cifar-10-binary.tar.gz, cifar-100-binary.tar.gz)";
  return {};
}

std::string_view by_mark(std::string_view bytes) {
  // Both brands are of HEIF at large; the brands behind them say what it holds.
  const auto brands = bytes.substr(0, std::min<std::size_t>(64, bytes.size()));
  if ((brands.find("ftypmif1") == 4 || brands.find("ftypmsf1") == 4) &&
      (brands.find("avif") != brands.npos || brands.find("avis") != brands.npos))
    return avif;
  const auto found = std::ranges::find_if(marks, [&](const Mark& mark) {
    return bytes.size() > mark.at && bytes.substr(mark.at).starts_with(mark.bytes);
  });
  return found != marks.end() ? found->remark : std::string_view();
}

std::string_view by_content(const fs::path& file, std::string_view bytes) {
  if (const auto remark = by_mark(bytes); !remark.empty()) return remark;
  if (is_zlib(bytes))
    return "is compressed with zlib; dimred reads plain shards and shards compressed as GZIP";
  if (bytes.starts_with("\x1F\x8B"sv) && is_damaged_gz(file))
    return "is a damaged or incomplete gzip file";
  if (bytes.starts_with("\x1F\x8B"sv) && lower_case(file.string()).ends_with(".tar.gz"))
    return archive;
  if (is_pickle(bytes))
    return "is a pickle; dimred reads no pickles, because a pickle can run code; write its arrays "
           "as images.npy and labels.npy";
  return {};
}

}  // namespace

std::string remark_on_bytes(Bytes bytes) {
  const auto remark = by_mark(text_of(bytes.first(std::min<std::size_t>(512, bytes.size()))));
  return remark.empty() ? std::string() : formatted(", which {}", remark);
}

std::string remark_on(const fs::path& file) {
  const auto name = file.filename().string();
  if (is_name_of_ours(name))
    return ", which is one of several files of a data set; give the folder of these files";
  std::string_view remark = by_name(lower_case(name));
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
  std::error_code unlisted;
  auto files = first_files(fs::directory_iterator(folder, unlisted));
  std::erase_if(files, [](const fs::path& file) {
    return is_name_of_ours(file.filename().string()) || is_tfrecord(file);
  });
  sort_naturally(files);
  for (const auto& file : files)
    if (const auto remark = remark_on(file); !remark.empty())
      return formatted("; the folder has {}{}", file.filename(), remark);
  for (const auto& file : files)
    if (file.filename().string().find(".tfrecord") != std::string::npos ||
        file.filename().string().find("-of-0") != std::string::npos)
      return formatted(
          "; {} does not begin as a TFRecord shard does, with a length and the CRC-32C of this "
          "length",
          file.filename());
  return {};
}

}  // namespace dimred::data
