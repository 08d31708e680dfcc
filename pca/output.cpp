#include "pca/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <span>
#include <utility>

#include "support/agreement.h"
#include "support/earlier_files.h"
#include "support/errors.h"
#include "support/stopwatch.h"

namespace dimred::pca {
namespace {

namespace fs = std::filesystem;

/// The part of commit_output that rank 0 does.
double commit(AtomicFile& matrix, const fs::path& output, const Sidecar& sidecar) {
  const auto path = sidecar_path(output);
  const auto text = to_json(sidecar);
  AtomicFile description(path);
  description.append(text);
  // a full disk shows before anything is replaced
  double seconds = description.sync() + matrix.sync();
  EarlierFiles earlier(pair_of(output));
  try {
    earlier.keep();
    {
      const ScopedSeconds waiting(seconds);
      sync_folder(path.parent_path());
    }
    seconds += matrix.commit();
    seconds += description.commit();
  } catch (...) {
    earlier.restore();
    throw;
  }
  earlier.forget();
  return seconds;
}

void check_matrix(const fs::path& output, const SnapshotSource& source) {
  const auto shown = formatted("'{}'", output);
  require(
      output.extension() == ".npy", "[pca] needs an output that ends in .npy, received {}", shown);
  require(fs::is_directory(fs::absolute(output).parent_path()),
          "[pca] needs an existing folder for the output, received {}",
          shown);
  require(!fs::is_directory(output), "[pca] needs a file as output, received the folder {}", shown);
  if (fs::exists(output)) {
    for (const auto& file : source.info().files) {
      require(!fs::equivalent(output, file),
              "[pca] needs an output other than the snapshots that the PCA reads, received {}",
              shown);
    }
  }
}

/// Tells this start's file from any other of its name. It begins as a .npy file does, so that the
/// next start knows the file again if this one is killed.
std::string unique_mark() {
  constexpr std::size_t size = 32;  // a header has 64 bytes at least
  std::random_device random;
  std::string mark = "\x93NUMPY";
  while (mark.size() < size) mark += std::to_string(random());
  mark.resize(size);
  return mark;
}

/// Reads nothing ahead: a page of another host's, once in this one's cache, grows old there.
void read_as_asked(const AtomicFile& file) {
  ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_RANDOM);
}

/// Rank 0's file, which begins with `mark`.
std::unique_ptr<AtomicFile> join_output(const fs::path& output, const std::string& mark, int rank) {
  const fs::path begun = output.string() + ".tmp";
  const bool there = fs::exists(begun);
  std::unique_ptr<AtomicFile> file;
  std::string found(mark.size(), '\0');
  if (there) {
    file = std::make_unique<AtomicFile>(output, AtomicFile::Join{});
    read_as_asked(*file);
    if (fs::file_size(begun) >= mark.size())
      read_exactly(file->descriptor(), 0, std::as_writable_bytes(std::span(found)), begun);
  }
  require(found == mark,
          "[pca] needs a folder that all ranks share, but rank {} finds {} '{}' of rank 0",
          rank,
          there ? "another file instead of" : "no",
          begun);
  return file;
}

}  // namespace

void check_output(const fs::path& output, const fs::path& gram, const SnapshotSource& source) {
  check_matrix(output, source);
  require_replaceable(output);
  if (gram.empty()) return;
  check_matrix(gram, source);
  require(fs::weakly_canonical(gram) != fs::weakly_canonical(output),
          "[pca] needs different files for the matrix and the Gram matrix, received '{}' for both",
          gram);
}

std::unique_ptr<AtomicFile> open_output(const fs::path& output,
                                        const std::string& header,
                                        std::int64_t bytes,
                                        Communicator& communicator) {
  std::unique_ptr<AtomicFile> file;
  const auto mark = on_rank_0(communicator, [&] {
    file = std::make_unique<AtomicFile>(output);
    file->reserve(std::ssize(header) + bytes);
    if (communicator.size() == 1) return std::string();
    read_as_asked(*file);
    auto made = unique_mark();
    file->write_at(0, made);
    file->sync();
    return made;
  });
  agree(communicator, [&] {
    if (!file) file = join_output(output, mark, communicator.rank());
  });
  on_rank_0(communicator, [&] { file->append(header); });  // over the mark
  return file;
}

std::int64_t page_bytes(Communicator& communicator) {
  std::int64_t largest = 0;
  for (const auto& text : communicator.gather(std::to_string(::sysconf(_SC_PAGESIZE))))
    largest = std::max<std::int64_t>(largest, std::stoll(text));
  return largest;
}

double write_borders(const MatrixTarget& matrix, Communicator& communicator) {
  if (communicator.size() == 1) return 0;
  double seconds = 0;
  {
    const ScopedSeconds waiting(seconds);
    agree(communicator, [&] { matrix.file->sync(); });
  }
  auto& own = *matrix.borders;
  std::vector<Borders> all;
  on_rank_0(communicator, [&] {
    for (int rank = 0; rank < communicator.size(); ++rank)
      all.emplace_back(matrix.shape, own_range(rank, communicator.size(), matrix.shape.columns));
  });
  // Row by row, because every rank receives what is gathered.
  for (std::int64_t row = 0; row < matrix.shape.rows; ++row) {
    const auto values = std::as_bytes(own.values(row));
    const auto texts = communicator.gather(
        std::string(reinterpret_cast<const char*>(values.data()), values.size()));
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const auto bytes = std::as_writable_bytes(all[rank].values(row));
      check(bytes.size() == texts[rank].size(), "borders of another size");
      std::ranges::copy(std::as_bytes(std::span(texts[rank])), bytes.begin());
    }
  }
  on_rank_0(communicator, [&] {
    for (const auto& borders : all) borders.write(*matrix.file);
    seconds += matrix.file->sync();
  });
  return seconds;
}

double commit_output(AtomicFile& matrix,
                     const fs::path& output,
                     const Sidecar& sidecar,
                     Communicator& communicator) {
  double seconds = 0;
  on_rank_0(communicator, [&] { seconds += commit(matrix, output, sidecar); });
  return seconds;
}

}  // namespace dimred::pca
