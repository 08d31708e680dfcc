#include "python/recording.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "checkpoints/folder_lock.h"
#include "checkpoints/frozen_part.h"
#include "checkpoints/runs.h"
#include "checkpoints/shape.h"
#include "checkpoints/snapshot.h"
#include "layout/layout.h"
#include "python/hdf5_guard.h"
#include "support/digest.h"
#include "support/errors.h"

namespace dimred::python {
namespace {

namespace fs = std::filesystem;
namespace nb = nanobind;
using nb::literals::operator""_a;

using Table = std::vector<std::tuple<std::string, std::vector<std::int64_t>>>;  // names, shapes
using Tied = std::vector<std::tuple<std::string, std::string>>;  // further names, first names
using FloatVector = nb::ndarray<nb::numpy, float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Counters = nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Values = nb::ndarray<nb::ro, const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

layout::Layout layout_of(const Table& table) {
  std::vector<layout::Parameter> parameters(table.size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    std::tie(parameters[i].name, parameters[i].shape) = table[i];
  }
  return layout::make_layout(parameters);
}

std::int64_t values_of(const Table& table) {
  std::int64_t values = 0;
  for (const auto& [name, shape] : table) values += checkpoints::product(shape).value();
  return values;
}

nlohmann::ordered_json rows_of(const Table& table) {
  auto rows = nlohmann::ordered_json::array();
  for (const auto& [name, shape] : table) rows.push_back({{"name", name}, {"shape", shape}});
  return rows;
}

/// Begins the digest of a frozen part in memory that Python has.
void begin_digest(DigestStream* memory, const Table& table) {
  new (memory) DigestStream(layout::frozen_digest(layout_of(table)));
}

/// The next values in the table's order.
void update_digest(DigestStream& stream, const Values& values) {
  stream.update(std::span(values.data(), values.size()));
}

checkpoints::FolderLock own_lock(const fs::path& folder) {
  auto lock = checkpoints::FolderLock::try_take(folder);
  if (lock) return std::move(*lock);
  const auto process = checkpoints::holder_of(folder);
  refuse(
      "[SnapshotRecorder] needs a folder without another recorder, received '{}' in use by process "
      "{}; close() that recorder or choose another folder",
      folder,
      process.empty() ? "(unknown)" : process);
}

/// A folder that no other recorder has, in this process or another, by the lock that runs have. A
/// fork's child holds it no more than others do.
class OwnFolder {
 public:
  explicit OwnFolder(const fs::path& folder) : lock_(own_lock(folder)) {}
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  ~OwnFolder() { give_up(); }

  void give_up() { lock_.remove(); }

 private:
  checkpoints::FolderLock lock_;
};

/// A copy of a network's values, and the snapshots that are made of it.
class Recording {
 public:
  /// lacks: names of the parameters that are not recorded; frozen: the digest of their values;
  /// tied: further names of parameters, recorded or not.
  Recording(const fs::path& folder,
            const Table& parameters,
            const Table& buffers,
            const Table& counters,
            const std::vector<std::string>& lacks,
            const std::string& frozen,
            const Tied& tied)
      : folder_(folder) {
    const layout::Layout layout = layout_of(parameters);
    auto table = nlohmann::ordered_json::parse(layout::to_json(layout));
    table["buffers"] = rows_of(buffers);
    table["counters"] = rows_of(counters);
    if (!lacks.empty()) {
      table["frozen"] = frozen;
      table["lacks"] = lacks;
    }
    for (const auto& [name, first] : tied) table["tied"][name] = first;
    snapshot_.layout_json = table.dump();
    snapshot_.layout_hash = layout.hash;
    snapshot_.weights.resize(layout.file_size);
    snapshot_.buffers.resize(values_of(buffers));
    snapshot_.counters.resize(values_of(counters));
    begin();
  }
  FloatVector weights() { return array_of<FloatVector>(snapshot_.weights); }
  FloatVector buffers() { return array_of<FloatVector>(snapshot_.buffers); }
  Counters counters() { return array_of<Counters>(snapshot_.counters); }

  void write(const fs::path& path, std::int64_t epoch, std::int64_t step) {
    snapshot_.epoch = epoch;
    snapshot_.step = step;
    with_hdf5([&] { checkpoints::write_snapshot(path, snapshot_); });
  }

  /// The snapshots from now on are of a run of their own.
  void begin() {
    snapshot_.run_json = nlohmann::json{{"run", to_json(checkpoints::new_identity())}}.dump();
  }

  /// Goes on with the run of an earlier snapshot, where the weights that were copied lie within
  /// `bound` times its norm of it; else a run of their own begins. Returns whether it goes on.
  bool go_on(const fs::path& path, double bound) {
    const auto earlier = with_hdf5([&] { return checkpoints::read_snapshot(path); });
    if (earlier.layout_hash != snapshot_.layout_hash) return false;
    double distance = 0, size = 0;
    for (std::size_t i = 0; i < earlier.weights.size(); ++i) {
      const double was = earlier.weights[i], difference = snapshot_.weights[i] - was;
      distance += difference * difference;
      size += was * was;
    }
    if (!(distance <= bound * bound * size)) return false;
    snapshot_.run_json = earlier.run_json;
    return true;
  }

  void close() { folder_.give_up(); }

 private:
  /// The property that returns it keeps this object, whose memory it is, alive.
  template <class Result, class Value>
  Result array_of(std::vector<Value>& values) {
    return Result(values.data(), {values.size()}, nb::handle());
  }

  OwnFolder folder_;
  checkpoints::Snapshot snapshot_;
};

}  // namespace

void bind_recording(nb::module_& module) {
  nb::class_<DigestStream>(module, "FrozenDigest")
      .def("__init__", begin_digest, "parameters"_a)
      .def("update", update_digest, "values"_a)
      .def("hex", &DigestStream::hex);
  nb::class_<Recording>(module, "Recording")
      .def(nb::init<const fs::path&,
                    const Table&,
                    const Table&,
                    const Table&,
                    const std::vector<std::string>&,
                    const std::string&,
                    const Tied&>(),
           "folder"_a,
           "parameters"_a,
           "buffers"_a,
           "counters"_a,
           "lacks"_a,
           "frozen"_a,
           "tied"_a)
      .def_prop_ro("weights", &Recording::weights)
      .def_prop_ro("buffers", &Recording::buffers)
      .def_prop_ro("counters", &Recording::counters)
      .def("write", &Recording::write, "path"_a, "epoch"_a, "step"_a)
      .def("go_on", &Recording::go_on, "path"_a, "bound"_a)
      .def("close", &Recording::close);
}

}  // namespace dimred::python
