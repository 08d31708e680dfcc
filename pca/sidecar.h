#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "layout/layout.h"
#include "layout/shard.h"

namespace dimred::pca {

/// The contents of <stem>.json beside a matrix.
struct Sidecar {
  std::string kind = "pca";  // name_of(Kind); files from before there were others do not say it
  std::vector<layout::ColumnRange> blocks;     // of P, in file order; empty: one of all columns
  std::vector<std::int64_t> block_components;  // [blocks] rows that are not zero
  std::optional<std::uint64_t> seed;           // of random and shuffled
  std::int64_t snapshots = 0;                  // n
  std::int64_t parameters = 0;                 // M
  std::int64_t components = 0;                 // k
  std::vector<double> singular_values, explained_variance_ratio, random_walk_ratio;  // [k]
  double orthonormality_error = 0;
  bool reorthonormalized = false;
  std::vector<std::string> snapshot_names;  // [n]
  std::string layout_hash;                  // empty: the snapshots carried none
  std::string layout_json;                  // of layout::to_json; empty with it
  std::int64_t digest_columns = 0;          // columns under one digest
  std::vector<std::string> digests;         // block_digest of P[:, block]
  std::int64_t threads = 0, tile_bytes = 0;
  std::string kernels;
};

/// pca_mat.npy -> pca_mat.json.
std::filesystem::path sidecar_path(const std::filesystem::path& npy);

/// Ends with a checksum of itself.
std::string to_json(const Sidecar& sidecar);

/// Throws std::invalid_argument when a file that is none of ours stands there: a fit must not
/// replace it. One of ours may be damaged.
void require_replaceable(const std::filesystem::path& npy);

/// nullopt when no file stands there. Throws std::invalid_argument when it is none of ours,
/// std::runtime_error when it is damaged.
std::optional<Sidecar> read_sidecar(const std::filesystem::path& npy);

}  // namespace dimred::pca
