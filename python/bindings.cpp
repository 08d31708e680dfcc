#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <atomic>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "checkpoints/artifact.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/folder_lock.h"
#include "checkpoints/name_pattern.h"
#include "checkpoints/read_pickle.h"
#include "checkpoints/run_config.h"
#include "checkpoints/series.h"
#include "checkpoints/state.h"
#include "checkpoints/steps.h"
#include "checkpoints/tied.h"
#include "checkpoints/weight_names.h"
#include "layout/layout.h"
#include "layout/shard.h"
#include "merge/coefficient_file.h"
#include "merge/coefficients.h"
#include "merge/merge.h"
#include "merge/row_sums.h"
#include "options/byte_size.h"
#include "pca/basis.h"
#include "pca/fit.h"
#include "pca/from_first.h"
#include "pca/memory_source.h"
#include "pca/parameter_choice.h"
#include "pca/trajectory.h"
#include "pca/trajectory_text.h"
#include "python/convert_bindings.h"
#include "python/diff_bindings.h"
#include "python/hdf5_guard.h"
#include "python/inspect_bindings.h"
#include "python/method_bindings.h"
#include "python/recording.h"
#include "python/watched_source.h"
#include "python/watched_work.h"
#include "support/atomic_file.h"
#include "support/earlier_files.h"
#include "support/errors.h"
#include "support/named.h"
#include "support/parallel.h"
#include "support/printable.h"
#include "support/result_file.h"
#include "support/text.h"
#include "support/version.h"

// dimred._core: files and PCA for the Python files beside this one, which say what a user sees.
// Exceptions: std::invalid_argument is ValueError, std::runtime_error OSError.
namespace dimred::python {
namespace {

namespace fs = std::filesystem;
namespace nb = nanobind;
using nb::literals::operator""_a;

using Shape = std::vector<std::int64_t>;
using Array = nb::ndarray<nb::ro, nb::ndim<1>, nb::device::cpu>;
template <class Value>
using Vector = nb::ndarray<nb::numpy, Value, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<nb::numpy, float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

struct Source {
  std::vector<Array> arrays;  // that the rows lie in
  std::unique_ptr<pca::SnapshotSource> rows;
};

/// Names of rows are paths, whose bytes need not be UTF-8.
nb::list names_of(const Source& source) {
  nb::list names;
  for (const auto& name : source.rows->info().names) {
    names.append(nb::steal(PyUnicode_DecodeFSDefaultAndSize(name.data(), std::ssize(name))));
  }
  return names;
}

/// As arrays of NumPy, which own the vectors.
template <class Value>
nb::dict arrays_of(std::map<std::string, std::vector<Value>>& vectors) {
  nb::dict arrays;
  for (auto& [name, values] : vectors) {
    auto* own = new std::vector<Value>(std::move(values));
    const nb::capsule owner(
        own, [](void* held) noexcept { delete static_cast<std::vector<Value>*>(held); });
    arrays[name.c_str()] =
        nb::cast(nb::ndarray<nb::numpy, Value, nb::ndim<1>>(own->data(), {own->size()}, owner));
  }
  return arrays;
}

/// The newest state of a run folder, or the state that the folder is: its folder, its scalars as
/// JSON, its vectors and counters in the file's order. Throws as checkpoints::read_state.
nb::tuple read_run_state(const fs::path& folder) {
  auto [path, state] = [&folder] {
    const nb::gil_scoped_release released;
    const auto states = checkpoints::states_of(folder);
    const auto newest = states.empty() ? folder : states.back();
    return std::pair(newest, checkpoints::read_state(newest));
  }();
  return nb::make_tuple(
      path, state.scalars.dump(), arrays_of(state.vectors), arrays_of(state.counters));
}

/// The run that a state belongs to, and its configuration as TOML; None and an empty text where it
/// lies outside one. Throws as checkpoints::read_config.
nb::tuple run_of_state(const fs::path& state) {
  const auto run = checkpoints::run_of(state);
  if (run.empty()) return nb::make_tuple(nb::none(), "");
  return nb::make_tuple(run, checkpoints::read_config(run));
}

using Floats = nb::ndarray<nb::ro, const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Integers =
    nb::ndarray<nb::ro, const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// Puts arrays in the place of the state's vectors, whose lengths stay as they are.
template <class Arrays, class Vectors>
void replace_values(const Arrays& arrays, Vectors& vectors) {
  for (const auto& [name, values] : arrays) {
    auto& vector = vectors.at(name);
    check(values.size() == vector.size(), "a vector keeps its length");
    vector.assign(values.data(), values.data() + values.size());
  }
}

/// The state after the newest one of a run, whose scalars still are `taken`: what is given in place
/// of its own, durable, under the run's lock; returns its folder. Throws std::invalid_argument
/// where the run has another newest state, std::runtime_error where somebody else holds the run.
fs::path write_run_state(const fs::path& run,
                         const std::string& taken,
                         const std::string& scalars,
                         const std::map<std::string, Floats>& vectors,
                         const std::map<std::string, Integers>& counters) {
  const nb::gil_scoped_release released;
  const checkpoints::FolderLock lock(run);
  const auto states = checkpoints::states_of(run);
  checkpoints::State state;
  if (!states.empty()) state = checkpoints::read_state(states.back());
  require(!states.empty() && state.scalars == nlohmann::json::parse(taken),
          "[SubspaceOptimizer] save_run needs an optimizer that load_run has restored from the "
          "newest state of '{}', received an optimizer from step {}; the newest state is {}",
          run,
          nlohmann::json::parse(taken).at("step").dump(),
          states.empty() ? "none" : states.back().filename().string());
  state.scalars = nlohmann::json::parse(scalars);
  replace_values(vectors, state.vectors);
  replace_values(counters, state.counters);
  // All others stay, as the run's manifest lists them.
  const checkpoints::StateStore store(run / "checkpoints", std::ssize(states) + 1);
  return store.save(state);
}

using TensorArguments = std::tuple<std::string, Shape, std::string, Array>;
using RowArguments = std::tuple<std::string, std::vector<TensorArguments>>;

Source source_of_arrays(const std::vector<RowArguments>& arguments) {
  Source source;
  std::vector<pca::MemoryRow> rows;
  for (const auto& [row_name, tensors] : arguments) {
    pca::MemoryRow& row = rows.emplace_back();
    row.name = row_name;
    for (const auto& [name, shape, dtype, array] : tensors) {
      source.arrays.push_back(array);
      const auto* data = static_cast<const std::byte*>(array.data());
      row.tensors.push_back({name, shape, dtype, data, array.stride(0)});
    }
  }
  source.rows = pca::memory_source(std::move(rows));
  return source;
}

template <class Value>
Value named(const std::vector<std::pair<std::string, Value>>& values, const std::string& name) {
  if (const auto value = named_value(values, name)) return *value;
  refuse("[dimred.fit] needs one of {}, received '{}'",
         joined(values, ", ", [](const auto& one) { return one.first; }),
         name);
}

/// A row, whole, into an array of its length, of float64 where the source's values are.
template <class Value>
void read_row(const Source& source, std::int64_t row, const Vector<Value>& out) {
  check(row >= 0 && row < source.rows->rows() && std::cmp_equal(out.size(), source.rows->columns()),
        "a row of the source, and an array as long as one");
  const nb::gil_scoped_release released;
  const std::span values(out.data(), out.size());
  if constexpr (std::is_same_v<Value, double>) {
    source.rows->read_float64(row, 0, values);
  } else {
    source.rows->read(row, 0, values);
  }
}

template <class Work>
void watched_rows(WatchedSource& source, const nb::object& progress, Work work) {
  watched([&] { source.stop(); }, [&] { return source.fraction(); }, progress, std::move(work));
}

/// Writes to `output`, or into `matrix`, which has room for the most rows that there can be;
/// returns the sidecar's text of a matrix in memory. from_first: of the differences from the first
/// snapshot, which are not centred.
std::string fit(const Source& source,
                const std::variant<Matrix, fs::path>& output,
                std::int64_t components,
                double variance,
                const std::string& kind,
                bool from_first,
                const std::string& blocks,
                std::uint64_t seed,
                std::int64_t threads,
                std::optional<Vector<double>> mean,
                const nb::object& progress) {
  const auto differences = from_first ? pca::from_first(*source.rows) : nullptr;
  const pca::FitOptions options{
      .components = components,
      .variance = variance,
      .kind = from_first ? pca::Kind::span : named(pca::kind_names(), kind),
      .blocks = named(pca::blocks_names(), blocks),
      .seed = seed,
      .mean = mean ? std::span(mean->data(), mean->size()) : std::span<double>(),
      .threads = threads};
  const auto columns = static_cast<std::size_t>(source.rows->columns());
  check(!mean || mean->size() == columns, "a mean has one value a column");
  WatchedSource rows(from_first ? *differences : *source.rows);
  std::string sidecar;
  watched_rows(rows, progress, [&] {
    if (const auto* path = std::get_if<fs::path>(&output)) {
      pca::fit(rows, options, *path);
    } else {
      const auto& matrix = std::get<Matrix>(output);
      sidecar =
          pca::to_json(pca::fit_in_memory(rows, options, {matrix.data(), matrix.size()}).header);
    }
  });
  return sidecar;
}

/// decay of ema, alpha of pma-ema, gamma of power.
using MergeRates = std::array<double, 3>;

merge::CoefficientOptions kind_options(const std::string& kind, const MergeRates& rates) {
  return {named(merge::kind_names(), kind), rates[0], rates[1], rates[2]};
}

using ShareValues = std::vector<double>;
/// Values for all tensors, or (regular expression, values) for the tensors that it matches.
using GivenShares = std::variant<ShareValues, std::vector<std::pair<std::string, ShareValues>>>;
/// (kind, rates, (from, to, stride, last), coefficients in the place of a kind).
using MergeRecipe =
    std::tuple<std::string, MergeRates, std::array<std::int64_t, 4>, std::optional<GivenShares>>;

merge::GivenCoefficients given_coefficients(const GivenShares& coefficients) {
  merge::GivenCoefficients given;
  if (const auto* values = std::get_if<ShareValues>(&coefficients)) {
    given.all = {*values};
    return given;
  }
  for (const auto& [pattern, values] : std::get<1>(coefficients)) {
    const auto place = formatted("coefficients of {}", printable(pattern));
    given.rules.push_back(
        {checkpoints::NamePattern(pattern, "[merge] coefficients"), {values}, place});
  }
  return given;
}

merge::Recipe merge_recipe(const MergeRecipe& recipe) {
  const auto& [kind, rates, window, coefficients] = recipe;
  merge::Recipe result{.coefficients = kind_options(kind, rates),
                       .window = {window[0], window[1], window[2], window[3]}};
  if (coefficients) result.given = given_coefficients(*coefficients);
  return result;
}

/// (folder, kind, coefficients, rules, inputs, steps) of an output.
nb::tuple merged_part(const merge::Report& report, const merge::PartReport& part) {
  nb::list inputs, steps, rules;
  for (const auto place : part.inputs) {
    inputs.append(report.inputs[place].path);
    steps.append(report.inputs[place].step);
  }
  for (const auto& rule : part.rules) rules.append(nb::make_tuple(rule.pattern, rule.coefficients));
  return nb::make_tuple(part.folder, part.kind, part.coefficients, rules, inputs, steps);
}

/// ([merged_part], copied, left_out, remarks) of a merge.
nb::tuple merged(const std::vector<fs::path>& sources,
                 const fs::path& output,
                 const std::vector<MergeRecipe>& recipes,
                 bool is_sweep,
                 const std::string& dtype,
                 const std::optional<std::string>& copy_from,
                 bool allow_different_config,
                 const std::optional<fs::path>& base,
                 const std::string& take,
                 std::int64_t shard_size,
                 std::int64_t threads) {
  merge::Options options{.dtype = dtype,
                         .shard_size = shard_size,
                         .copy_from = copy_from.value_or("latest"),
                         .copy_from_given = copy_from.has_value(),
                         .allow_different_config = allow_different_config,
                         .take = take,
                         .base = base.value_or(fs::path()),
                         .threads = threads};
  for (const auto& recipe : recipes) options.sweep.push_back(merge_recipe(recipe));
  if (!is_sweep) options.recipe = std::exchange(options.sweep, {}).front();
  ByteProgress progress;
  options.progress = &progress;
  merge::Report report;
  watched_reading(progress, [&] { report = merge::merge(sources, fs::absolute(output), options); });
  nb::list parts;
  for (const auto& part : report.parts) parts.append(merged_part(report, part));
  return nb::make_tuple(parts, report.copied, report.left_out, merge::remarks_on(report));
}

/// The report as JSON.
std::string trajectory(const Source& source,
                       std::int64_t flips,
                       std::int64_t block,
                       std::int64_t window,
                       std::uint64_t seed,
                       std::int64_t threads) {
  std::atomic<bool> stop = false;
  const pca::TrajectoryOptions options{.flips = flips,
                                       .block = block,
                                       .window = window,
                                       .seed = seed,
                                       .threads = threads,
                                       .stop = &stop};
  WatchedSource rows(*source.rows);
  std::string report;
  watched(
      [&] {
        rows.stop();
        stop = true;
      },
      [] { return 0.0; },
      nb::none(),
      [&] { report = pca::to_json(pca::measure_trajectory(rows, options)); });
  return report;
}

/// Throws as pca::read_basis_header, with `values` as pca::load_basis.
void check_basis(const fs::path& npy, bool values) {
  const nb::gil_scoped_release released;
  const auto layout = pca::layout_of(pca::read_basis_header(npy));
  if (values) pca::load_basis(npy, layout, layout::shard_of(layout, 0, 1));
}

/// A text of ours may name a path whose bytes are no UTF-8.
void set_error(PyObject* type, const std::string& text) {
  const auto size = static_cast<Py_ssize_t>(text.size());
  const auto message = nb::steal(PyUnicode_DecodeUTF8(text.data(), size, "surrogateescape"));
  PyErr_SetObject(type, message.ptr());
}

void translate(const std::exception_ptr& exception, void*) {
  try {
    std::rethrow_exception(exception);
  } catch (const nb::builtin_exception&) {
    throw;  // nanobind's own are runtime errors, too
  } catch (const std::invalid_argument& error) {
    set_error(PyExc_ValueError, error.what());
  } catch (const std::runtime_error& error) {
    set_error(PyExc_OSError, error.what());
  }
}

/// Reader of all snapshots of a source.
void bind_statistics(nb::module_& module) {
  module.def("fit",
             fit,
             "source"_a,
             "output"_a,
             "components"_a,
             "variance"_a,
             "kind"_a,
             "from_first"_a,
             "blocks"_a,
             "seed"_a,
             "threads"_a,
             "mean"_a.none(),
             "progress"_a.none());
  module.def("trajectory",
             trajectory,
             "source"_a,
             "flips"_a,
             "block"_a,
             "window"_a,
             "seed"_a,
             "threads"_a);
}

using Weights = std::pair<std::vector<double>, double>;  // and what their sum is divided by

Weights coefficients(const std::string& kind,
                     const std::vector<std::int64_t>& steps,
                     const MergeRates& rates) {
  auto of = merge::coefficients_of(steps, kind_options(kind, rates));
  return {std::move(of.weights), of.divisor};
}

/// Returns the rows' digests.
template <class Value>
std::vector<std::string> combine(const Source& source,
                                 const std::vector<std::int64_t>& taken,
                                 const Weights& weights,
                                 const Vector<Value>& out) {
  WatchedSource rows(*source.rows);
  std::vector<std::string> digests;
  watched_rows(rows, nb::none(), [&] {
    digests = merge::combine_rows(rows,
                                  taken,
                                  {weights.first, weights.second},
                                  std::span(out.data(), out.size()),
                                  available_threads());
  });
  return digests;
}

checkpoints::Steps named_steps(const Source& source) {
  std::vector<fs::path> names;
  for (const auto& name : source.rows->info().names) names.push_back(checkpoints::name_of(name));
  return checkpoints::steps_of(names);
}

/// The steps of the rows, by their names.
std::vector<std::int64_t> steps_of(const Source& source) { return named_steps(source).of; }

/// Whether the names carry no steps, for which places stand then.
bool are_counted(const Source& source) { return named_steps(source).counted; }

/// Why the names give the rows no order, as those of a merge; None where there is one. That a list
/// has an order of its own does not count.
nb::object unordered(const Source& source) {
  const auto& info = source.rows->info();
  checkpoints::Series series{.members = {}, .unordered = info.unordered};
  if (series.unordered.empty() && !info.layout_json.empty()) {  // else the rows of one matrix
    for (const auto& name : info.names)
      series.members.push_back({.path = checkpoints::name_of(name), .weights = name});
    checkpoints::take_steps(series);
    if (!series.counted) checkpoints::sort_by_step(series);
  }
  const auto& text = series.unordered;
  if (text.empty()) return nb::none();
  return nb::steal(PyUnicode_DecodeFSDefaultAndSize(text.data(), std::ssize(text)));
}

/// The names of weights that share their values with an earlier one in the file of the first row,
/// as tied weights of PyTorch do, each with the name under which the rows have these values.
std::vector<std::pair<std::string, std::string>> tied_names(const Source& source) {
  const auto& info = source.rows->info();
  if (info.layout_json.empty() || info.files.empty()) return {};
  const auto file = checkpoints::look(info.names.front());
  if (file.kind == checkpoints::ArtifactKind::snapshot) {
    const auto own = checkpoints::tied_parameters(info.layout_json);
    return {own.begin(), own.end()};
  }
  auto tensors = checkpoints::read_checkpoint(info.names.front(), file.kind).tensors;
  std::erase_if(tensors, [](const auto& tensor) { return !checkpoints::is_weight(tensor.role); });
  const auto names =
      checkpoints::network_names(texts_of(tensors, &checkpoints::StoredTensor::name));
  std::vector<std::pair<std::string, std::string>> tied;
  for (const auto& group : checkpoints::tied_groups(tensors)) {
    const auto& first = tensors[group.front()];
    for (const auto place : group)
      if (place != group.front() && tensors[place].dtype == first.dtype &&
          tensors[place].shape == first.shape)
        tied.emplace_back(names[place], names[group.front()]);
  }
  return tied;
}

/// $PATH may have no python3, or one that is not this; programs that embed Python may name none.
void read_pickles_by_this_python() {
  const nb::object program = nb::module_::import_("sys").attr("executable");
  if (program.is_none()) return;
  const auto path = nb::cast<fs::path>(program).string();
  checkpoints::set_default_python(path);
  pca::set_default_python(path);
}

void bind_merge(nb::module_& module) {
  std::vector<std::string> kinds;
  for (const auto& [name, kind] : merge::kind_names()) kinds.push_back(name);
  module.attr("merge_kinds") = nb::tuple(nb::cast(kinds));
  module.def("coefficients", coefficients, "kind"_a, "steps"_a, "rates"_a);
  module.def("combine", combine<float>, "source"_a, "taken"_a, "weights"_a, "out"_a);
  module.def("combine", combine<double>, "source"_a, "taken"_a, "weights"_a, "out"_a);
  module.def("merge",
             merged,
             "sources"_a,
             "output"_a,
             "recipes"_a,
             "is_sweep"_a,
             "dtype"_a,
             "copy_from"_a.none(),
             "allow_different_config"_a,
             "base"_a.none(),
             "take"_a,
             "shard_size"_a,
             "threads"_a);
  module.def("byte_size", [](const std::string& text) { return parse_byte_size(text).bytes; });
}

/// Files that Python writes by the rules for files written here.
void bind_results(nb::module_& module) {
  module.def(
      "require_result_place",
      [](const fs::path& path,
         const std::string& option,
         const std::pair<std::string, std::string>& mark,
         const std::vector<fs::path>& inputs) {
        require_result_place({.path = path,
                              .option = option,
                              .mark = {.what = mark.first, .text = mark.second, .within = 4096},
                              .inputs = inputs});
      },
      "path"_a,
      "option"_a,
      "mark"_a,
      "inputs"_a);
  nb::class_<AtomicFile>(module, "AtomicFile")
      .def(nb::init<fs::path>(), "path"_a)
      .def("fileno", &AtomicFile::descriptor)
      .def("commit", &AtomicFile::commit, nb::call_guard<nb::gil_scoped_release>());
  nb::class_<EarlierFiles>(module, "EarlierFiles")
      .def(nb::init<std::vector<fs::path>>(), "names"_a)
      .def("keep", &EarlierFiles::keep)
      .def("restore", &EarlierFiles::restore)
      .def("forget", &EarlierFiles::forget)
      .def("remark", &EarlierFiles::remark);
}

void bind_sources(nb::module_& module) {
  nb::class_<Source>(module, "Source")
      .def_prop_ro("rows", [](const Source& source) { return source.rows->rows(); })
      .def_prop_ro("columns", [](const Source& source) { return source.rows->columns(); })
      .def_prop_ro("float64", [](const Source& source) { return source.rows->info().float64; })
      .def_prop_ro("names", names_of)
      .def_prop_ro("remarks", [](const Source& source) { return source.rows->info().remarks; })
      .def_prop_ro("steps", steps_of)
      .def_prop_ro("counted", are_counted)
      .def_prop_ro("unordered", unordered)
      .def("tied_names", tied_names, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("layout", [](const Source& source) { return source.rows->info().layout_json; })
      .def("read", read_row<float>, "row"_a, "out"_a)
      .def("read", read_row<double>, "row"_a, "out"_a)
      .def(
          "choose",
          [](Source& source, const std::vector<std::string>& names) {
            source.rows = pca::chosen_parameters(std::move(source.rows), names);
          },
          "names"_a);
  module.def(
      "open_path",
      [](const fs::path& path, bool several_runs) {
        const auto runs = several_runs ? pca::Runs::several : pca::Runs::one;
        return with_hdf5([&] { return Source{{}, pca::open_source(path, alone(), runs)}; });
      },
      "path"_a,
      "several_runs"_a);
  module.def(
      "open_files",
      [](const std::vector<fs::path>& files, bool several_runs) {
        const auto runs = several_runs ? pca::Runs::several : pca::Runs::one;
        return with_hdf5([&] { return Source{{}, pca::open_files(files, alone(), runs)}; });
      },
      "files"_a,
      "several_runs"_a);
  module.def("open_arrays", source_of_arrays, "rows"_a);
  module.def(
      "adapter_parts",
      [](const std::vector<std::string>& names) { return checkpoints::adapter_parts(names); },
      "names"_a);
  module.def(
      "holds_quantised_weights",
      [](const std::string& name, const std::string& dtype) {
        return checkpoints::role_of({name, dtype}) == checkpoints::Role::quantised;
      },
      "name"_a,
      "dtype"_a);
}

}  // namespace

NB_MODULE(_core, module) {
  nb::register_exception_translator(translate);
  hold_forks();
  read_pickles_by_this_python();
  module.attr("version") = std::string(version());
  module.attr("openmp_spin_count") = std::string(openmp_spin_count);
  bind_sources(module);
  bind_statistics(module);
  bind_merge(module);
  bind_convert(module);
  bind_diff(module);
  bind_inspect(module);
  bind_results(module);
  bind_method(module);
  module.def("read_run_state", read_run_state, "folder"_a);
  module.def("run_of_state", run_of_state, "state"_a);
  module.def("write_run_state",
             write_run_state,
             "run"_a,
             "taken"_a,
             "scalars"_a,
             "vectors"_a,
             "counters"_a);
  module.def("check_basis", check_basis, "npy"_a, "values"_a);
  bind_recording(module);
}

}  // namespace dimred::python
