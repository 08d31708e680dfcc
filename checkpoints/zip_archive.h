#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

struct zip;

namespace dimred::checkpoints {

/// A zip archive of plainly stored records, as torch.save writes it, read through libzip, which
/// verifies each record's CRC-32. What is compressed or encrypted is refused, so that no record is
/// larger than its file.
class ZipArchive {
 public:
  /// Throws std::runtime_error("[PyTorch] 'file': ...") unless it is a whole archive.
  explicit ZipArchive(const std::filesystem::path& path);

  const std::vector<std::string>& names() const { return names_; }

  /// Reads every record once, compressed ones too, and keeps none. Throws std::runtime_error for
  /// the first whose CRC differs.
  void verify() const;

  /// Throws std::runtime_error when there is no such record, or it is damaged.
  std::vector<std::uint8_t> read(const std::string& name) const;

 private:
  [[noreturn]] void fail(const std::string& what) const;

  std::filesystem::path path_;
  std::unique_ptr<zip, int (*)(zip*)> archive_;
  std::vector<std::string> names_;
};

}  // namespace dimred::checkpoints
