#include "pca/gram_file.h"

#include "checkpoints/atomic_file.h"
#include "checkpoints/npy.h"

namespace dimred::pca {

void GramFile::add(std::span<const double> part, std::int64_t stride) {
  for (std::int64_t i = 0; i < n_; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      lower_[static_cast<std::size_t>(i * n_ + j)] +=
          part[static_cast<std::size_t>(i * stride + j)];
    }
  }
}

void GramFile::write(const std::filesystem::path& npy) const {
  std::vector<double> full = lower_;
  for (std::int64_t i = 0; i < n_; ++i) {
    for (std::int64_t j = i + 1; j < n_; ++j) {
      full[static_cast<std::size_t>(i * n_ + j)] = lower_[static_cast<std::size_t>(j * n_ + i)];
    }
  }
  const std::string header = checkpoints::npy_header_bytes({n_, n_}, 8);
  checkpoints::AtomicFile file(npy);
  file.append(std::as_bytes(std::span(header)));
  file.append(std::as_bytes(std::span(full)));
  file.commit();
}

}  // namespace dimred::pca
