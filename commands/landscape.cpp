#include "commands/landscape.h"

#include <algorithm>
#include <map>

#include "checkpoints/run_config.h"
#include "checkpoints/state.h"
#include "checkpoints/step_names.h"
#include "support/errors.h"
#include "support/list_files.h"
#include "support/option_values.h"
#include "support/stopwatch.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

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

/// A field that a comma or a quote would break.
std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string result = "\"";
  for (const char letter : text) {
    if (letter == '"') result += letter;
    result += letter;
  }
  return result + '"';
}

std::string row_of(const std::vector<double>& numbers) {
  std::string text;
  for (const double number : numbers) {
    if (!text.empty()) text += ',';
    text += number_text(number);
  }
  return text + '\n';
}

}  // namespace

std::vector<PathFile> path_files(const fs::path& path) {
  require(fs::exists(path), "[inspect] no such file or folder: {}", path.string());
  std::vector<fs::path> files;
  const auto add_snapshots = [&files](const fs::path& folder) {
    if (!fs::is_directory(folder)) return;
    const auto found = list_files(folder, {".h5"});
    files.insert(files.end(), found.begin(), found.end());
  };
  if (!fs::is_directory(path) || checkpoints::is_state(path)) {
    files = {path};
  } else if (checkpoints::is_run(path)) {
    files = checkpoints::list_steps(path / "checkpoints", checkpoints::kStateNames);
    add_snapshots(path / "snapshots");
    if (fs::exists(path / "final.h5")) files.push_back(path / "final.h5");
  } else {
    add_snapshots(path);
  }
  require(!files.empty(), "[inspect] {} holds no snapshots and no states", path.string());
  std::vector<PathFile> result;
  result.reserve(files.size());
  for (const auto& file : files)
    result.push_back({.file = file, .source = path.lexically_proximate(fs::current_path())});
  return result;
}

std::vector<PathPoint> measure_path(const Landscape& landscape,
                                    const std::vector<PathFile>& files) {
  auto& setup = landscape.setup;
  const auto count = std::ssize(files);
  constexpr std::int64_t width = 7;
  const auto measure = [&](std::int64_t index) -> std::vector<double> {
    const auto weights = training::load_weights(setup, files[index].file);
    training::apply(setup.model, weights);
    const auto at = training::coordinates(landscape.plane, setup.model.flat.weights);
    const auto score = training::score_here(setup, landscape.samples, landscape.options);
    return {static_cast<double>(weights.step),
            static_cast<double>(weights.epoch),
            at.a,
            at.b,
            at.distance,
            score.loss,
            score.accuracy};
  };
  const auto numbers = training::shared_among(
      landscape.communicator, count, width, measure, progress_on(landscape.console, "path", count));
  std::vector<std::string> sources;
  std::map<std::pair<std::size_t, std::int64_t>, PathPoint> points;  // by source and step
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& source = files[i].source;
    const auto known = std::find(sources.begin(), sources.end(), source);
    const auto index = static_cast<std::size_t>(known - sources.begin());
    if (known == sources.end()) sources.push_back(source);
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

std::string measure_surface(const Landscape& landscape,
                            const training::Axis& a,
                            const training::Axis& b) {
  const auto count = a.points * b.points;
  const auto at = [&](std::int64_t i) { return std::pair{a.at(i % a.points), b.at(i / a.points)}; };
  const auto measure = [&](std::int64_t i) -> std::vector<double> {
    const auto [along_a, along_b] = at(i);
    const auto score = training::score_in_plane(
        landscape.setup, landscape.plane, along_a, along_b, landscape.samples, landscape.options);
    return {score.loss, score.accuracy};
  };
  const auto scores = training::shared_among(
      landscape.communicator, count, 2, measure, progress_on(landscape.console, "surface", count));
  std::string text = "a,b,loss,accuracy\n";
  for (std::int64_t i = 0; i < count; ++i) {
    const auto [along_a, along_b] = at(i);
    text += row_of({along_a, along_b, scores[2 * i], scores[2 * i + 1]});
  }
  return text;
}

std::string path_csv(const std::vector<PathPoint>& points) {
  std::string text = "source,step,epoch,a,b,distance_from_plane,loss,accuracy\n";
  for (const auto& point : points) {
    text += formatted("{},{},{},", quoted(point.source), point.step, point.epoch);
    text += row_of({point.coordinates.a,
                    point.coordinates.b,
                    point.coordinates.distance,
                    point.loss,
                    point.accuracy});
  }
  return text;
}

}  // namespace dimred::commands
