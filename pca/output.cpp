#include "pca/output.h"

#include <span>
#include <system_error>
#include <utility>

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
  double seconds = 0;
  if (fs::remove(path)) {
    const ScopedSeconds waiting(seconds);
    sync_folder(path.parent_path());
  }
  seconds += matrix.commit();
  try {
    seconds += description.commit();
  } catch (...) {
    std::error_code ignored;
    fs::remove(output, ignored);
    throw;
  }
  return seconds;
}

void check_matrix(const fs::path& output, const SnapshotSource& source) {
  const auto shown = formatted("'{}'", output);
  require(output.extension() == ".npy",
          "[pca::fit] needs an output that ends in .npy, received {}",
          shown);
  require(fs::is_directory(fs::absolute(output).parent_path()),
          "[pca::fit] needs the folder of its output to exist, received {}",
          shown);
  require(!fs::is_directory(output),
          "[pca::fit] needs a file as output, received the folder {}",
          shown);
  if (fs::exists(output)) {
    for (const auto& file : source.info().files) {
      require(!fs::equivalent(output, file),
              "[pca::fit] needs an output that is none of its snapshots, received {}",
              shown);
    }
  }
}

}  // namespace

void check_output(const fs::path& output, const fs::path& gram, const SnapshotSource& source) {
  check_matrix(output, source);
  require_replaceable(output);
  if (gram.empty()) return;
  check_matrix(gram, source);
  require(fs::weakly_canonical(gram) != fs::weakly_canonical(output),
          "[pca::fit] needs two names for the matrix and the Gram matrix, received '{}' for both",
          gram);
}

std::unique_ptr<AtomicFile> open_output(const fs::path& output,
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
                     const fs::path& output,
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
