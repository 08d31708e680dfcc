#include "support/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "support/atomic_file.h"
#include "support/descriptor.h"
#include "support/digest.h"
#include "support/errors.h"

namespace dimred {

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  const InputFile file(path_);  // a mapping outlives it
  const auto& state = file.state();
  modified_ = state.seconds * 1'000'000'000 + state.nanoseconds;
  const std::size_t size = file.size();
  if (size == 0) return;  // cannot be mapped
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  require_environment(start != MAP_FAILED,
                      "[file] mmap '{}' of {} bytes failed: {}",
                      path_,
                      size,
                      std::strerror(errno));
  bytes_ = {static_cast<const std::uint8_t*>(start), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::uint8_t*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      bytes_(std::exchange(other.bytes_, {})),
      modified_(other.modified_) {}

FileIdentity MappedFile::identity() const {
  constexpr std::size_t part = 4096, parts = 4;
  DigestStream stream;
  const auto all = std::as_bytes(bytes_);
  const std::size_t last = all.size() - std::min(part, all.size());
  for (std::size_t i = 0; i < parts; ++i)
    stream.update(all.subspan(last / (parts - 1) * i)
                      .first(std::min(part, all.size() - last / (parts - 1) * i)));
  stream.update(all.subspan(last));
  return {.size = bytes_.size(), .modified = modified_, .sample = stream.hex()};
}

void MappedFile::read_sequentially(bool sequential) const {
  if (bytes_.empty()) return;
  ::madvise(const_cast<std::uint8_t*>(bytes_.data()),
            bytes_.size(),
            sequential ? MADV_SEQUENTIAL : MADV_NORMAL);
}

void MappedFile::fetch(Bytes part) const {
#ifdef MADV_POPULATE_READ
  static const std::size_t page = ::sysconf(_SC_PAGESIZE);
  const std::size_t begin = part.data() - bytes_.data();
  const auto from = begin - begin % page;
  if (part.empty()) return;
  const int code = retrying([&] {
    return ::madvise(const_cast<std::uint8_t*>(bytes_.data()) + from,
                     begin + part.size() - from,
                     MADV_POPULATE_READ);
  });
  const int error = code == 0 ? 0 : errno;
  // The kernel would otherwise send a signal if the pages could not be had when they are touched.
  const bool lost = error == EFAULT || error == EIO || error == EHWPOISON;
  require_environment(
      !lost,
      "[file] {}, offset {}: {}",
      path_,
      begin,
      error == EFAULT ? "the file became shorter while dimred read it" : "the disk cannot be read");
#else
  (void)part;
#endif
}

}  // namespace dimred
