#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "checkpoints/artifact.h"
#include "checkpoints/run_config.h"
#include "checkpoints/step_names.h"
#include "commands/ranks.h"
#include "commands/remote.h"
#include "commands/run.h"
#include "commands/saved_weights.h"
#include "commands/text_table.h"
#include "commands/train_run.h"
#include "commands/trainer_commands.h"
#include "engine/data_sets.h"
#include "engine/weights/landscape.h"
#include "models/margin.h"
#include "options/option_values.h"
#include "pca/basis.h"
#include "run/make_setup.h"
#include "run/weights/frozen_file.h"
#include "run/weights/weights.h"
#include "support/agreement.h"
#include "support/console.h"
#include "support/errors.h"
#include "support/list_files.h"
#include "support/printable.h"
#include "support/result_file.h"
#include "support/stopwatch.h"
#include "support/text.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

/// Weights on the path of a run: a file or state, and what the user called the run.
struct PathFile {
  fs::path file;
  std::string source;
};

/// One row of the second CSV.
struct PathPoint {
  std::string source;
  std::int64_t step = 0, epoch = 0;
  engine::Coordinates coordinates;
  double loss = 0, accuracy = 0;  // of the weights themselves, not of their projection
};

/// A measurement: where, on which samples, and how.
struct Landscape {
  engine::Setup* setup = nullptr;  // of this rank alone
  distributed::TensorCommunicator* communicator = nullptr;
  Console* console = nullptr;
  const engine::Plane* plane = nullptr;
  const data::Dataset* samples = nullptr;
  engine::Recalibration options;
};

/// Tells the console how far the work is.
std::function<void(std::int64_t)> progress_on(Console& console,
                                              const std::string& label,
                                              std::int64_t total) {
  return [&console, label, total, clock = Stopwatch()](std::int64_t done) {
    const auto left = static_cast<double>(total - done);
    console.progress({.label = label,
                      .done = done,
                      .total = total,
                      .seconds_left = left * clock.seconds() / static_cast<double>(done)});
    if (done == total) console.clear();
  };
}

std::string csv_line(const std::vector<double>& numbers) {
  return joined(numbers, ",", number_text) + '\n';
}

/// All weights that `path` holds, oldest first of each kind: itself when it is a state or a file;
/// of a run folder its states, snapshots and final.h5; of another folder its snapshots. `source` is
/// the path as seen from here. Throws std::invalid_argument when it holds none.
std::vector<PathFile> path_files(const fs::path& path) {
  require(fs::exists(path), "[inspect] no such file or folder: {}", path);
  std::vector<fs::path> files;
  const auto add_snapshots = [&files](const fs::path& folder) {
    if (!fs::is_directory(folder)) return;
    const auto found = list_files(folder, {".h5"});
    files.insert(files.end(), found.begin(), found.end());
  };
  const auto artifact = checkpoints::look(path);
  if (artifact.kind == checkpoints::ArtifactKind::run) {
    files = checkpoints::list_steps(path / "checkpoints", checkpoints::state_folder_names);
    add_snapshots(path / "snapshots");
    if (fs::exists(path / "final.h5")) files.push_back(path / "final.h5");
  } else if (artifact.is_one()) {
    files = {path};
  } else {
    add_snapshots(path);
  }
  require(!files.empty(), "[inspect] needs snapshots or states, but {} holds none", path);
  const std::string source = path.lexically_proximate(fs::current_path());
  std::vector<PathFile> result;
  for (const auto& file : files) result.push_back({file, source});
  return result;
}

/// Projects and evaluates every file, shared among the ranks. By source in the order given, then by
/// step; of two with one step the later in the list stays.
std::vector<PathPoint> measure_path(const Landscape& landscape,
                                    const std::vector<PathFile>& files) {
  auto& setup = *landscape.setup;
  const auto count = std::ssize(files);
  constexpr std::int64_t width = 7;
  const auto measure = [&](std::int64_t index) -> std::vector<double> {
    const auto weights = run::load_weights(setup, files[index].file);
    run::apply(setup.model, weights);
    const auto at = engine::coordinates(*landscape.plane, setup.model.flat.weights);
    const auto score = engine::score_here(setup, *landscape.samples, landscape.options);
    return {static_cast<double>(weights.step),
            static_cast<double>(weights.epoch),
            at.a,
            at.b,
            at.distance,
            score.loss,
            score.accuracy};
  };
  const auto numbers = engine::shared_among(*landscape.communicator,
                                            count,
                                            width,
                                            measure,
                                            progress_on(*landscape.console, "path", count));
  std::map<std::string, std::size_t> order;                          // of the sources
  std::map<std::pair<std::size_t, std::int64_t>, PathPoint> points;  // by source and step
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& source = files[i].source;
    const auto index = order.try_emplace(source, order.size()).first->second;
    const auto* row = &numbers[i * width];
    const auto step = static_cast<std::int64_t>(row[0]);
    points[{index, step}] = {.source = source,
                             .step = step,
                             .epoch = static_cast<std::int64_t>(row[1]),
                             .coordinates = {.a = row[2], .b = row[3], .distance = row[4]},
                             .loss = row[5],
                             .accuracy = row[6]};
  }
  std::vector<PathPoint> result;
  result.reserve(points.size());
  for (auto& [key, point] : points) result.push_back(std::move(point));
  return result;
}

/// Loss and accuracy at every point of the grid, shared among the ranks, as the CSV
/// a,b,loss,accuracy: b by b, in each all a.
std::string measure_surface(const Landscape& landscape,
                            const engine::Axis& a,
                            const engine::Axis& b) {
  const auto count = a.points * b.points;
  const auto at = [&](std::int64_t i) { return std::pair{a.at(i % a.points), b.at(i / a.points)}; };
  const auto measure = [&](std::int64_t i) -> std::vector<double> {
    const auto [along_a, along_b] = at(i);
    const auto score = engine::score_in_plane(*landscape.setup,
                                              *landscape.plane,
                                              along_a,
                                              along_b,
                                              *landscape.samples,
                                              landscape.options);
    return {score.loss, score.accuracy};
  };
  const auto scores = engine::shared_among(*landscape.communicator,
                                           count,
                                           2,
                                           measure,
                                           progress_on(*landscape.console, "surface", count));
  std::string text = "a,b,loss,accuracy\n";
  for (std::int64_t i = 0; i < count; ++i) {
    const auto [along_a, along_b] = at(i);
    text += csv_line({along_a, along_b, scores[2 * i], scores[2 * i + 1]});
  }
  return text;
}

/// The CSV source,step,epoch,a,b,distance_from_plane,loss,accuracy.
std::string path_csv(const std::vector<PathPoint>& points) {
  std::string text = "source,step,epoch,a,b,distance_from_plane,loss,accuracy\n";
  for (const auto& point : points) {
    text += formatted("{},{},{},", csv_field(point.source), point.step, point.epoch);
    text += csv_line({point.coordinates.a,
                      point.coordinates.b,
                      point.coordinates.distance,
                      point.loss,
                      point.accuracy});
  }
  return text;
}

enum class Center { last, mean };
enum class Samples { train, validation, test };

struct LandscapeOptions {
  run::CommonOptions common;
  fs::path run, pca_mat, center_file;
  fs::path output = "landscape.csv";
  bool overwrite = false;
  ResultPlace surface_place, path_place;  // that output names
  std::string paths;
  Center center = Center::last;
  std::vector<double> components{1, 2}, grid{21, 21}, a_range, b_range;
  double margin = 0.25;
  Samples set = Samples::train;
  std::int64_t samples = 2000;
  engine::Recalibration surface;
};

void add_plane_options(OptionTable& table, LandscapeOptions& options) {
  table.group("Landscape");
  table
      .add("landscape",
           &options.run,
           "run folder, state or snapshot: source of model, data, trajectory and center")
      .essential();
  table.add("pca_mat", &options.pca_mat, "matrix whose components span the plane, k x M .npy")
      .essential();
  table
      .add("components",
           &options.components,
           "two rows of the matrix, counted from 1",
           between(1, 1e9))
      .essential();
  table
      .add_choice(
          "center",
          &options.center,
          "center of the plane: newest weights of --landscape, or mean of the run's snapshots",
          {{"last", Center::last}, {"mean", Center::mean}})
      .essential();
  table.add(
      "center_file",
      &options.center_file,
      "run, state, snapshot or weight file with the weights at the center, instead of --center");
  table
      .add("paths",
           &options.paths,
           "more run folders, states or snapshots to project, comma-separated")
      .essential();
}

void add_surface_options(OptionTable& table, LandscapeOptions& options) {
  table
      .add("grid",
           &options.grid,
           "number of points along the plane's coordinates a and b",
           between(1, 1001))
      .essential();
  table
      .add("margin",
           &options.margin,
           "border of the grid, as a share of the extent of paths and center together",
           between(0, 100))
      .needs(!has_value("a_range") || !has_value("b_range"));
  table.add("a_range",
            &options.a_range,
            "range LOW,HIGH of the plane's first coordinate a, instead of the paths' extent plus "
            "--margin");
  table.add("b_range",
            &options.b_range,
            "range LOW,HIGH of the plane's second coordinate b, instead of the paths' extent plus "
            "--margin");
  table
      .add_choice(
          "set",
          &options.set,
          "samples to evaluate, without augmentation",
          {{"train", Samples::train}, {"validation", Samples::validation}, {"test", Samples::test}})
      .essential();
  table
      .add("samples",
           &options.samples,
           "number of samples, chosen at random by seed; 0: all",
           at_least(0))
      .essential();
  table.add_choice(
      "batchnorm",
      &options.surface.recalibrate,
      "estimate BatchNorm's running statistics at every point, or keep the saved statistics",
      {{"recalibrate", true}, {"keep", false}});
  table
      .add("batchnorm_batches",
           &options.surface.batchnorm_batches,
           "training batches for the estimate of running statistics",
           at_least(1))
      .needs(is("batchnorm", {"recalibrate"}));
  table
      .add("output",
           &options.output,
           "CSV file for the surface; the training path is written to NAME_path.csv")
      .role(OptionRole::output)
      .essential();
  table.add("overwrite", &options.overwrite, "replace existing outputs")
      .role(OptionRole::overwrite)
      .essential();
  table.add("quiet", &options.common.run.quiet, "print errors only").role(OptionRole::quiet);
}

fs::path path_output(const LandscapeOptions& options) {
  auto name = options.output;
  return name.replace_filename(options.output.stem().string() + "_path.csv");
}

/// All that can be refused is refused before anything is loaded.
void check_options(const LandscapeOptions& options, const OptionTable& table) {
  for (const auto* values : {&options.components, &options.grid}) {
    const bool whole = std::ranges::all_of(*values, [](double x) { return x == std::floor(x); });
    require(values->size() == 2 && whole,
            "[inspect] {} needs two whole numbers",
            table.at(values).name);
  }
  for (const auto* values : {&options.a_range, &options.b_range})
    require(values->empty() || (values->size() == 2 && values->front() < values->back()),
            "[inspect] {} needs LOW,HIGH with LOW < HIGH",
            table.at(values).name);
  require(options.components[0] != options.components[1],
          "[inspect] --components needs two different rows, received {} twice",
          options.components[0]);
  require(options.center == Center::last || options.center_file.empty(),
          "[inspect] needs either --center or --center_file, received both");
  require(fs::exists(options.run), "[inspect] no such run: {}", options.run);
  require(!options.pca_mat.empty(), "[inspect] a landscape needs --pca_mat FILE");
  require(options.output.extension() == ".csv",
          "[inspect] needs an --output whose name ends in .csv, received {}",
          options.output);
  const auto folder = options.output.has_parent_path() ? options.output.parent_path() : ".";
  require(fs::is_directory(folder), "[inspect] needs an existing folder for --output");
  require_result_place(options.surface_place);
  require_result_place(options.path_place);
}

run::Weights center_of(const engine::Setup& setup, const LandscapeOptions& options) {
  if (!options.center_file.empty()) return run::load_weights(setup, options.center_file);
  if (options.center == Center::last) return run::load_weights(setup, options.run);
  const auto run = checkpoints::run_of(options.run);
  return run::mean_of_series(setup, (run.empty() ? options.run : run) / "snapshots");
}

/// Whole rows on every rank: each evaluates points of its own.
engine::Plane plane_of(const engine::Setup& setup, const LandscapeOptions& options) {
  const auto& components = options.components;
  const auto highest = static_cast<std::int64_t>(std::max(components[0], components[1]));
  const auto available = pca::read_basis_header(options.pca_mat).components;
  require(highest <= available,
          "[inspect] --components needs rows in [1, {}], received {}",
          available,
          highest);
  auto basis = pca::load_basis(options.pca_mat,
                               setup.model.flat.layout,
                               layout::shard_of(setup.model.flat.layout, 0, 1),
                               {.components = highest});
  const auto row = [&](double component) {
    auto* values = basis.values.data() + (static_cast<std::int64_t>(component) - 1) * basis.columns;
    return torch::from_blob(values, {basis.columns}).clone().to(setup.model.device);
  };
  return engine::plane_through(setup.model, row(components[0]), row(components[1]));
}

std::unique_ptr<data::Dataset> samples_of(const engine::Setup& setup,
                                          const LandscapeOptions& options) {
  auto whole = setup.data.train;
  if (options.set == Samples::test) whole = setup.data.test;
  if (options.set == Samples::validation) whole = setup.data.validation;
  require(whole != nullptr,
          "[inspect] set = {}",
          options.set == Samples::test
              ? "test needs a test set, but the run has none; give a test set with --test_data PATH"
              : "validation needs a run with a validation_fraction");
  if (options.set != Samples::test)
    engine::require_cache_for_all(
        setup.data, "every point reads samples of all files; set = test reads no training files");
  auto indices = engine::drawn_indices(whole->size(), options.samples, setup.seed);
  return data::subset(std::move(whole), std::move(indices));
}

/// A line where the center was trained on samples of the validation set that every point reads;
/// else empty. Throws std::invalid_argument where the caller has chosen such a set.
std::string validation_remark(const OptionTable& table,
                              const engine::Setup& setup,
                              const run::Weights& center,
                              const LandscapeOptions& options) {
  if (options.set != Samples::validation) return {};
  const auto& path = options.center_file.empty() ? options.run : options.center_file;
  return checked_validation(table, center, path, setup.data, options.common.data);
}

std::vector<PathFile> all_path_files(const LandscapeOptions& options) {
  require(options.paths.empty() || ("," + options.paths + ",").find(",,") == std::string::npos,
          "[inspect] --paths needs a path on both sides of each comma, received {}",
          printable(options.paths));
  auto files = path_files(options.run);
  std::istringstream more(options.paths);
  for (std::string path; std::getline(more, path, ',');) {
    const auto absolute = fs::absolute(path).lexically_normal();
    const auto found = path_files(absolute.has_filename() ? absolute : absolute.parent_path());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

engine::Axis axis_of(const std::vector<double>& range,
                     const std::vector<double>& values,
                     double points,
                     const LandscapeOptions& options,
                     const char* name) {
  const auto count = static_cast<std::int64_t>(points);
  if (!range.empty()) return {.low = range[0], .high = range[1], .points = count};
  const auto axis = engine::axis_around(values, options.margin, count);
  require(axis.low < axis.high,
          "[inspect] the paths do not leave the center along {}; give --{}_range LOW,HIGH",
          name,
          name);
  return axis;
}

std::vector<double> along(const std::vector<PathPoint>& points, double engine::Coordinates::*axis) {
  std::vector<double> values;
  values.reserve(points.size());
  for (const auto& point : points) values.push_back(point.coordinates.*axis);
  return values;
}

int measure(LandscapeOptions& options, const OptionTable& table, const distributed::Ranks& ranks) {
  auto setup = run::make_setup(options.common, distributed::single_process(ranks.rank_info));
  run::load_frozen(setup, options.run);
  const auto center = center_of(setup, options);
  run::apply(setup.model, center);
  const auto plane = plane_of(setup, options);
  const auto files = all_path_files(options);
  const auto samples = samples_of(setup, options);
  std::string names;
  for (const auto& path : files) names += path.file.string() + ' ';
  require_agreement(
      *ranks.communicator,
      {{"the samples", samples->description()},
       {"the center", models::digest_of(plane.center)},
       {"the components", models::digest_of(plane.first) + models::digest_of(plane.second)},
       {"the files of the paths", names}});
  auto console = console_of(ranks, options.common.run.quiet);
  console.line(formatted("center: {}; {} samples a point", center.source, samples->size()));
  if (const auto line = validation_remark(table, setup, center, options); !line.empty())
    console.warn(line);
  if (setup.model.batchnorm_layers > 0)
    console.line(options.surface.recalibrate ? "BatchNorm recalibrated for every point"
                                             : "BatchNorm's running statistics kept");
  const Landscape landscape{.setup = &setup,
                            .communicator = ranks.communicator.get(),
                            .console = &console,
                            .plane = &plane,
                            .samples = samples.get(),
                            .options = options.surface};
  const auto points = measure_path(landscape, files);
  using engine::Coordinates;
  const auto a =
      axis_of(options.a_range, along(points, &Coordinates::a), options.grid[0], options, "a");
  const auto b =
      axis_of(options.b_range, along(points, &Coordinates::b), options.grid[1], options, "b");
  const auto surface = measure_surface(landscape, a, b);
  if (ranks.rank_info.rank != 0) return exit_success;
  write_result(options.path_place, path_csv(points));
  write_result(options.surface_place, surface);
  console.line(formatted("wrote {}, {}", options.output, path_output(options)));
  return exit_success;
}

}  // namespace

int landscape_command(const std::vector<std::string>& arguments) {
  LandscapeOptions options;
  OptionTable table("dimred inspect",
                    "compute the loss, and the paths of runs, in the plane of two components of a "
                    "projection matrix");
  add_plane_options(table, options);
  add_surface_options(table, options);
  run::add_compute_options(table, options.common.run);
  table
      .add("seed",
           &options.common.run.seed,
           "seed for the choice of samples and of BatchNorm's batches",
           at_least(0))
      .needs(above("samples") || is("batchnorm", {"recalibrate"}) || above("validation_fraction"));
  run::add_data_options(table, options.common.data);
  run::add_model_options(table, options.common.model);
  models::add_options(table, options.common.head);
  launch::add_options(table, options.common.ranks);
  add_store_options(table);
  if (printed_help(table, arguments)) return exit_success;
  options.surface_place = result_place(table, &options.output);
  options.path_place = options.surface_place;
  options.path_place.path = path_output(options);
  check_options(options, table);
  const auto run = checkpoints::open_run(options.run);
  for (const auto& line : adopt_run(table, run, options.common, "unlike the run: "))
    print(line + "\n");
  adopt_normalisation(table, run, options.run, options.common.data);
  print_default_network(table, run, options.run, options.common.model);
  print_default_data(table, run, options.run, options.common.data);
  require_data(table, options.common.data);
  run::resolve(options.common, /*ranks=*/1, table);  // each rank evaluates points of its own
  return with_ranks(
      table, options.common, [&](const auto& ranks) { return measure(options, table, ranks); });
}

}  // namespace dimred::commands
