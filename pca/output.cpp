#include "pca/output.h"

#include <span>
#include <system_error>
#include <utility>

#include "support/errors.h"
#include "support/stopwatch.h"

namespace dimred::pca {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

/// The part of commit_output that rank 0 does.
double commit(AtomicFile& matrix, const std::filesystem::path& output, const Sidecar& sidecar) {
  const std::filesystem::path path = sidecar_path(output);
  const std::string text = to_json(sidecar);
  AtomicFile description(path);
  description.append(text);
  double seconds = 0;
  if (std::filesystem::remove(path)) {
    const ScopedSeconds waiting(seconds);
    sync_folder(folder_of(path));
  }
  seconds += matrix.commit();
  try {
    seconds += description.commit();
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(output, ignored);
    throw;
  }
  return seconds;
}

void check_matrix(const std::filesystem::path& output, const SnapshotSource& source) {
  const std::string shown = formatted("'{}'", output);
  require(output.extension() == ".npy",
          "[pca::fit] needs an output that ends in .npy, received {}",
          shown);
  require(std::filesystem::is_directory(folder_of(output)),
          "[pca::fit] needs the folder of its output to exist, received {}",
          shown);
  require(!std::filesystem::is_directory(output),
          "[pca::fit] needs a file as output, received the folder {}",
          shown);
  if (std::filesystem::exists(output)) {
    for (const std::filesystem::path& file : source.info().files) {
      require(!std::filesystem::equivalent(output, file),
              "[pca::fit] needs an output that is none of its snapshots, received {}",
              shown);
    }
  }
}

}  // namespace

void check_output(const std::filesystem::path& output,
                  const std::filesystem::path& gram,
                  const SnapshotSource& source) {
  check_matrix(output, source);
  require_replaceable(output);
  if (gram.empty()) return;
  check_matrix(gram, source);
  require(std::filesystem::weakly_canonical(gram) != std::filesystem::weakly_canonical(output),
          "[pca::fit] needs two names for the matrix and the Gram matrix, received '{}' for both",
          gram);
}

std::unique_ptr<AtomicFile> open_output(const std::filesystem::path& output,
                                        const std::string& header,
                                        std::int64_t bytes,
                                        const Ranks& ranks) {
  std::unique_ptr<AtomicFile> file;
  on_rank_0(ranks, [&] {
    file = std::make_unique<AtomicFile>(output);
    file->reserve(std::ssize(header) + bytes);
    file->append(header);
  });
  agree(ranks, [&] {
    if (file) return;
    file = std::make_unique<AtomicFile>(output, AtomicFile::Join{});
  });
  return file;
}

double commit_output(AtomicFile& matrix,
                     const std::filesystem::path& output,
                     const Sidecar& sidecar,
                     const Ranks& ranks) {
  double seconds = 0;
  {
    const ScopedSeconds waiting(seconds);
    agree(ranks, [&] {
      if (ranks.rank != 0) matrix.sync();
    });
  }
  on_rank_0(ranks, [&] { seconds += commit(matrix, output, sidecar); });
  return seconds;
}

}  // namespace dimred::pca
