#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "support/console.h"
#include "training/weights/landscape.h"
#include "training/weights/weights.h"

// The parts of `dimred inspect --landscape` between its options and training/weights/landscape.h.
namespace dimred::commands {

/// Weights on the path of a run: a file or state, and what the user called the run.
struct PathFile {
  std::filesystem::path file;
  std::string source;
};

/// All weights that `path` holds, oldest first of each kind: itself when it is a state or a file;
/// of a run folder its states, snapshots and final.h5; of another folder its snapshots. `source` is
/// the path as seen from here. Throws std::invalid_argument when it holds none.
std::vector<PathFile> path_files(const std::filesystem::path& path);

/// One row of the second CSV.
struct PathPoint {
  std::string source;
  std::int64_t step = 0, epoch = 0;
  training::Coordinates coordinates;
  double loss = 0, accuracy = 0;  // of the weights themselves, not of their projection
};

/// A measurement: where, on which samples, and how.
struct Landscape {
  training::Setup& setup;  // of this rank alone
  distributed::Communicator& communicator;
  Console& console;
  const training::Plane& plane;
  const data::Dataset& samples;
  training::LandscapeOptions options;
};

/// Projects and evaluates every file, shared among the ranks. By source in the order given, then by
/// step; of two with one step the later in the list stays.
std::vector<PathPoint> measure_path(const Landscape& landscape, const std::vector<PathFile>& files);

/// Loss and accuracy at every point of the grid, shared among the ranks, as the CSV
/// a,b,loss,accuracy: b by b, in each all a.
std::string measure_surface(const Landscape& landscape,
                            const training::Axis& a,
                            const training::Axis& b);

/// The CSV source,step,epoch,a,b,distance_from_plane,loss,accuracy.
std::string path_csv(const std::vector<PathPoint>& points);

}  // namespace dimred::commands
