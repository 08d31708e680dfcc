#include "checkpoints/zip_archive.h"

#include <zip.h>

#include "support/errors.h"

namespace dimred::checkpoints {
namespace {

/// Only read, so there is nothing to write at the end.
int discard(zip* archive) {
  zip_discard(archive);
  return 0;
}

std::string text_of(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

}  // namespace

void ZipArchive::fail(const std::string& what) const {
  throw std::runtime_error(concat("[PyTorch] '", path_.string(), "': ", what));
}

ZipArchive::ZipArchive(const std::filesystem::path& path)
    : path_(path), archive_(nullptr, discard) {
  int code = 0;
  archive_.reset(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (!archive_) {
    fail(concat(
        "is damaged, or cut off at byte ", std::filesystem::file_size(path), ": ", text_of(code)));
  }
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive_.get(), 0); ++i) {
    const char* name = zip_get_name(archive_.get(), static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW);
    if (name != nullptr) names_.emplace_back(name);
  }
}

void ZipArchive::verify() const {
  std::vector<std::uint8_t> part(std::size_t{1} << 16);
  for (zip_uint64_t i = 0; i < names_.size(); ++i) {
    const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(
        zip_fopen_index(archive_.get(), i, 0), zip_fclose);
    if (!file) fail(concat("record ", names_[i], " is damaged: ", zip_strerror(archive_.get())));
    zip_int64_t received = 0;
    do {
      received = zip_fread(file.get(), part.data(), part.size());
    } while (received > 0);
    if (received < 0)
      fail(concat("record ", names_[i], " is damaged: ", zip_file_strerror(file.get())));
  }
}

std::vector<std::uint8_t> ZipArchive::read(const std::string& name) const {
  zip_stat_t stat;
  zip_stat_init(&stat);
  if (zip_stat(archive_.get(), name.c_str(), ZIP_FL_ENC_RAW, &stat) != 0)
    fail(concat("has no record ", name));
  const bool known = (stat.valid & ZIP_STAT_SIZE) != 0 && (stat.valid & ZIP_STAT_COMP_METHOD) != 0;
  if (!known || stat.comp_method != ZIP_CM_STORE || stat.encryption_method != ZIP_EM_NONE ||
      stat.size > std::filesystem::file_size(path_))
    fail(concat("record ", name, " needs to be stored as it is, neither compressed nor encrypted"));
  std::vector<std::uint8_t> bytes(stat.size);
  const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(
      zip_fopen_index(archive_.get(), stat.index, 0), zip_fclose);
  if (!file) fail(concat("record ", name, " is damaged: ", zip_strerror(archive_.get())));
  // One byte more, so that the end is met, where libzip compares the CRC.
  std::uint8_t beyond = 0;
  const auto received = zip_fread(file.get(), bytes.data(), bytes.size());
  if (received != static_cast<zip_int64_t>(bytes.size()) || zip_fread(file.get(), &beyond, 1) != 0)
    fail(concat("record ", name, " is damaged: ", zip_file_strerror(file.get())));
  return bytes;
}

}  // namespace dimred::checkpoints
