#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "checkpoints/npy.h"
#include "checkpoints/snapshot.h"
#include "layout/layout.h"
#include "support/errors.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::commands {

namespace fs = std::filesystem;

struct Outcome {
  int code = -1;
  std::string output, errors;
};

/// Runs `program` through the shell with `arguments` as a user types them.
inline Outcome run_program(const fs::path& program, const std::string& arguments) {
  const TemporaryFolder folder;
  const auto out = folder.path() / "out", err = folder.path() / "err";
  const int status = std::system(
      formatted("'{}' {} >{} 2>{}", program.string(), arguments, out.string(), err.string())
          .c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of_file(out), text_of_file(err)};
}

inline Outcome dimred_program(const std::string& arguments) {
  return run_program(DIMRED_PROGRAM, arguments);
}

inline layout::Layout small_layout() {
  return layout::make_layout({{"conv.weight", {4, 1, 3, 3}}, {"conv.bias", {4}}});
}

/// A snapshot of 40 weights that are a function of (`step`, index) without structure.
inline checkpoints::Snapshot small_snapshot(std::int64_t step) {
  const auto layout = small_layout();
  checkpoints::Snapshot snapshot;
  for (std::int64_t i = 0; i < layout.file_size; ++i) {
    snapshot.weights.push_back(static_cast<float>((step * 7919 + i * i * 104729) % 1009) / 1009);
  }
  snapshot.epoch = step;
  snapshot.step = step;
  snapshot.train_loss = 0.5;
  snapshot.layout_json = layout::to_json(layout);
  snapshot.layout_hash = layout.hash;
  return snapshot;
}

/// `count` snapshots in a new folder `folder`/snapshots; returns it.
inline fs::path write_snapshots(const fs::path& folder, int count) {
  const checkpoints::SnapshotStore store(folder / "snapshots", 1000);
  for (int step = 1; step <= count; ++step) store.save(small_snapshot(step));
  return store.folder();
}

inline fs::path first_file(const fs::path& folder) { return list_files(folder, {".h5"}).front(); }

/// Inverts one bit of the byte at `offset`, counted from the end when negative.
inline void flip_bit(const fs::path& file, std::int64_t offset) {
  auto bytes = text_of_file(file);
  bytes.at(offset < 0 ? bytes.size() + offset : offset) ^= 4;
  std::ofstream(file, std::ios::binary) << bytes;
}

}  // namespace dimred::commands
