#pragma once

#include <string>
#include <utility>
#include <vector>

namespace dimred::pca {

/// The kind of P's rows.
enum class Kind {
  pca,       // leading principal components of the centred snapshots
  span,      // an orthonormal basis of the span of the snapshots themselves, not centred
  random,    // orthonormalised Gaussian rows: the control that knows nothing of the snapshots
  shuffled,  // pca with its columns permuted within each layer, one permutation for all rows:
             // equal spectrum, norms and orthonormality, wrong coordinates
};

/// How P is cut: one basis of all columns, or one of each layer's, P then being block-diagonal.
enum class Blocks { whole, layers };

/// Their names in options and files.
inline std::vector<std::pair<std::string, Kind>> kind_names() {
  return {{"pca", Kind::pca},
          {"span", Kind::span},
          {"random", Kind::random},
          {"shuffled", Kind::shuffled}};
}

inline std::vector<std::pair<std::string, Blocks>> blocks_names() {
  return {{"whole", Blocks::whole}, {"layers", Blocks::layers}};
}

inline std::string name_of(Kind kind) {
  return kind_names().at(static_cast<std::size_t>(kind)).first;
}

/// The rows depend on a seed.
inline bool needs_seed(Kind kind) { return kind == Kind::random || kind == Kind::shuffled; }

}  // namespace dimred::pca
