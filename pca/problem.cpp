#include "pca/problem.h"

#include <optional>

#include "pca/device_passes.h"
#include "pca/exchange.h"
#include "pca/gaussian_source.h"
#include "pca/output.h"
#include "pca/selected_source.h"
#include "pca/sidecar.h"
#include "support/errors.h"
#include "support/threads.h"

namespace dimred::pca {
namespace {

constexpr const char* kPlace = "pca::fit";

/// k, where the options leave it to the kind.
std::int64_t components_of(const FitOptions& options, std::int64_t n) {
  return options.kind == Kind::span && options.components == 0 ? n : options.components;
}

void check_components(const FitOptions& options, std::int64_t n, std::int64_t columns) {
  const std::int64_t k = components_of(options, n);
  require(k >= 1, kPlace, "needs k >= 1, received k = ", k);
  switch (options.kind) {
    case Kind::pca:
    case Kind::shuffled:
      return require(n - 1 >= k, kPlace, "needs n - 1 >= k, received n = ", n, ", k = ", k);
    case Kind::span:
      return require(n >= k, kPlace, "needs n >= k, received n = ", n, ", k = ", k);
    case Kind::random:
      return require(columns >= k, kPlace, "needs M >= k, received M = ", columns, ", k = ", k);
  }
}

void check_options(const FitOptions& options, const std::vector<layout::ColumnRange>& layers) {
  require(options.threads >= 0, kPlace, "needs threads >= 0, received ", options.threads);
  require(options.tile_bytes >= 1 << 20,
          kPlace,
          "needs tile_bytes >= 1048576, received ",
          options.tile_bytes);
  require(!layers.empty() || (options.blocks == Blocks::whole && options.kind != Kind::shuffled),
          kPlace,
          options.blocks == Blocks::whole ? "kind shuffled" : "blocks = layers",
          " needs snapshots that know their layers (.h5 or safetensors), received none with a "
          "layout");
}

/// Columns of the parameters that the rows carry a table of, in file order; empty without one.
std::vector<layout::ColumnRange> layers_of(const SnapshotSource& source) {
  std::vector<layout::ColumnRange> layers;
  if (source.layout_json().empty()) return layers;
  const layout::Layout layout = layout_from_json(source.layout_json());
  for (const layout::Entry& entry : layout.entries) {
    if (entry.size == 0) continue;
    layers.push_back({entry.file_offset, entry.file_offset + entry.size});
  }
  require_environment(layout.file_size == source.columns(),
                      kPlace,
                      "snapshots of ",
                      source.columns(),
                      " values carry a table of ",
                      layout.file_size);
  return layers;
}

PassPlan passes_of(const SnapshotSource& rows,
                   std::int64_t components,
                   const FitOptions& options,
                   const std::optional<DeviceChoice>& device,
                   const Ranks& ranks) {
  const std::int64_t threads = options.threads > 0 ? options.threads : available_threads();
  PassPlan plan = plan_passes(rows,
                              select_kernels(options.kernels),
                              components,
                              threads,
                              options.tile_bytes,
                              own_range(ranks, rows.columns()));
  if (device) {
    plan.threads = threads;  // the device has the tiles
    use_device(plan, *device, options.tile_bytes);
  }
  return plan;
}

/// The same on every rank, or their sums are of different problems.
std::string text_of(const Problem& problem, const FitOptions& options) {
  return concat(problem.snapshots->rows(),
                " x ",
                problem.snapshots->columns(),
                " snapshots, k = ",
                problem.plan.components,
                ", kind ",
                name_of(options.kind),
                ", blocks ",
                problem.blocks.size(),
                ", seed ",
                options.seed,
                ", from ",
                options.snapshots.from,
                " to ",
                options.snapshots.to,
                " skip ",
                options.snapshots.skip,
                options.gram.empty() ? "" : ", with Gram matrix");
}

}  // namespace

Problem plan_fit(const SnapshotSource& source,
                 const FitOptions& options,
                 const std::filesystem::path& output,
                 const Ranks& ranks) {
  Problem problem;
  agree(ranks, [&] {
    problem.snapshots = &source;
    if (options.snapshots != SnapshotRange{}) {
      problem.selected =
          std::make_unique<SelectedSource>(source, rows_in(source, options.snapshots));
      problem.snapshots = problem.selected.get();
    }
    problem.layers = layers_of(source);
    check_options(options, problem.layers);
    check_components(options, problem.snapshots->rows(), source.columns());
    if (ranks.rank == 0) check_output(output, options.gram, source);
    const std::int64_t k = components_of(options, problem.snapshots->rows());
    if (options.kind == Kind::random) {
      problem.gaussian = std::make_unique<GaussianSource>(k, source.columns(), options.seed);
    }
    const bool reads_snapshots = !problem.gaussian || !options.gram.empty();
    problem.centred = passes_of(
        *problem.snapshots, k, options, reads_snapshots ? options.device : std::nullopt, ranks);
    problem.plan = problem.gaussian
                       ? passes_of(*problem.gaussian, k, options, options.device, ranks)
                       : problem.centred;
    problem.plan.centred = options.kind == Kind::pca || options.kind == Kind::shuffled;
    problem.blocks = options.blocks == Blocks::layers
                         ? problem.layers
                         : std::vector<layout::ColumnRange>{{0, source.columns()}};
  });
  require_same(ranks, kPlace, text_of(problem, options));
  return problem;
}

}  // namespace dimred::pca
