#include "checkpoints/fsdp_ranks.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "checkpoints/rank_files.h"
#include "checkpoints/read_pickle.h"
#include "checkpoints/shape.h"
#include "checkpoints/tensor_table.h"
#include "support/errors.h"
#include "support/parallel.h"
#include "support/printable.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view fsdp_scope = "FSDP";

using Extents = std::vector<std::int64_t>;

/// The ranks' files of a folder by rank, all of one world size.
std::vector<fs::path> fsdp_files(const fs::path& folder) {
  std::vector<std::pair<RankFile, fs::path>> found;
  for (const auto& item : fs::directory_iterator(folder))
    if (const auto file = rank_file(item.path()); file && file->kind == RankKind::fsdp)
      found.emplace_back(*file, item.path());
  require(!found.empty(), "[FSDP] '{}' has no file model_world_size_N_rank_R.pt", folder);
  std::ranges::sort(found, {}, [](const auto& file) { return file.first.rank; });
  const auto world_size = found.front().first.world_size;
  std::vector<fs::path> files;
  for (const auto& [file, path] : found) {
    require(file.world_size == world_size,
            "[FSDP] '{}' comes from {} ranks, but '{}' comes from {}; all files must come from one "
            "save",
            found.front().second,
            world_size,
            path.filename(),
            file.world_size);
    if (file.rank != std::ssize(files)) break;
    files.push_back(path);
  }
  require(std::cmp_equal(files.size(), world_size) && files.size() == found.size(),
          "[FSDP] '{}' has files of {} ranks, but 'model_world_size_{}_rank_{}.pt' is missing",
          folder,
          found.size(),
          world_size,
          files.size());
  return files;
}

/// The ranks of a device mesh in its shape's order.
struct Mesh {
  Extents shape, ranks;
  bool operator==(const Mesh&) const = default;

  /// The place of a rank on each dimension; empty: it has none.
  Extents coordinate_of(std::int64_t rank) const {
    auto place = std::ranges::find(ranks, rank) - ranks.begin();
    if (place == std::ssize(ranks)) return {};
    Extents coordinate(shape.size());
    for (auto i = shape.size(); i-- > 0; place /= shape[i]) coordinate[i] = place % shape[i];
    return coordinate;
  }
};

/// The description of a tensor that all ranks share.
struct Described {
  std::string name, dtype;
  Extents shape;
  nlohmann::json placements;  // of each dimension of the mesh the tensor's that it cuts, or null
  Mesh mesh;
};

Described described(const nlohmann::json& row, const nlohmann::json& meshes) {
  const auto& mesh = meshes.at(row.at(4).get<std::size_t>());
  return {row.at(0), row.at(1), row.at(2), row.at(3), {mesh.at("shape"), mesh.at("ranks")}};
}

/// Refuses a mesh in which a rank is not where its file says, or that has not each rank once.
void require_place(const fs::path& file,
                   std::int64_t rank,
                   std::int64_t world_size,
                   const nlohmann::json& saved) {
  const Mesh mesh{saved.at("shape"), saved.at("ranks")};
  auto sorted = mesh.ranks;
  std::ranges::sort(sorted);
  bool all = std::cmp_equal(sorted.size(), world_size);
  for (std::int64_t i = 0; all && i < world_size; ++i) all = sorted[i] == i;
  require(all,
          "[FSDP] '{}' has tensors on a device mesh of the ranks {}, but the mesh must hold all {} "
          "ranks",
          file,
          extents_text(mesh.ranks),
          world_size);
  const auto& by = saved.at("rank");
  require(by.is_null() || by == rank,
          "[FSDP] '{}' was saved by rank {}, but the file name says rank {}",
          file,
          by.dump(),
          rank);
  const auto coordinate = mesh.coordinate_of(rank);
  const auto& said = saved.at("coordinate");
  require(
      said.is_null() || said.get<Extents>() == coordinate,
      "[FSDP] '{}' records the coordinate {} in the device mesh, but rank {} has the coordinate {}",
      file,
      said.dump(),
      rank,
      extents_text(coordinate));
}

struct RankPart {
  Extents first, sizes;
  bool repeated = false;  // an earlier rank holds the same
};

/// The part of a tensor that lies at a place of its mesh.
RankPart part_at(const fs::path& file, const Described& tensor, const Extents& coordinate) {
  RankPart part{.first = Extents(tensor.shape.size()), .sizes = tensor.shape};
  require(tensor.placements.size() == tensor.mesh.shape.size(),
          "[FSDP] '{}': \"{}\" needs one placement for each of the {} dimensions of the device "
          "mesh, received {}",
          file,
          printable(tensor.name),
          tensor.mesh.shape.size(),
          tensor.placements.size());
  for (std::size_t i = 0; i < coordinate.size(); ++i) {
    const auto& dim = tensor.placements.at(i);
    if (dim.is_null()) {
      part.repeated |= coordinate[i] > 0;
      continue;
    }
    const auto axis = dim.get<std::size_t>();
    require(axis < tensor.shape.size(),
            "[FSDP] '{}': \"{}\" has {} dimensions, but the placement shards dimension {} (counted "
            "from 0)",
            file,
            printable(tensor.name),
            tensor.shape.size(),
            axis);
    // As torch.chunk cuts: the last parts are smaller, or empty.
    const auto whole = part.sizes[axis], ranks = tensor.mesh.shape[i];
    const auto each = whole / ranks + (whole % ranks > 0 ? 1 : 0);
    const auto begin = std::min(each * coordinate[i], whole);
    part.first[axis] += begin;
    part.sizes[axis] = std::min(each, whole - begin);
  }
  return part;
}

void require_same(const fs::path& first,
                  const Described& expected,
                  const fs::path& file,
                  const Described& received) {
  const auto text = [](const Described& tensor) {
    return formatted("{} {}, placements {} on a device mesh {} of the ranks {}",
                     tensor.dtype,
                     extents_text(tensor.shape),
                     tensor.placements.dump(),
                     extents_text(tensor.mesh.shape),
                     extents_text(tensor.mesh.ranks));
  };
  require(expected.dtype == received.dtype && expected.shape == received.shape &&
              expected.placements == received.placements && expected.mesh == received.mesh,
          "[FSDP] '{}' has \"{}\" as {}, but '{}' has this tensor as {}",
          first,
          printable(expected.name),
          text(expected),
          file,
          text(received));
}

void require_dtensors(const fs::path& file, const nlohmann::json& plain) {
  if (plain.empty()) return;
  refuse(
      "[FSDP] '{}': \"{}\" is not a DTensor, so ranks may hold different values; save the tensor "
      "as a DTensor, or save with torch.distributed.checkpoint",
      file,
      printable(plain.at(0).get<std::string>()));
}

/// Tensors as the first rank describes them, whose names find them.
struct RankedTensors {
  std::vector<Described> of;
  std::map<std::string, std::size_t> places;
};

RankedTensors described_by(const nlohmann::json& saved) {
  RankedTensors tensors;
  for (const auto& row : saved.at("tensors")) {
    tensors.of.push_back(described(row, saved.at("meshes")));
    tensors.places.emplace(tensors.of.back().name, tensors.places.size());
  }
  return tensors;
}

/// Adds the box that a rank's file has of a tensor.
void add_part(Checkpoint& checkpoint,
              std::size_t place,
              const Described& tensor,
              std::size_t rank,
              const nlohmann::json& row) {
  const auto& file = checkpoint.files[rank];
  const auto at = tensor.mesh.coordinate_of(static_cast<std::int64_t>(rank));
  const auto part = part_at(file, tensor, at);
  const auto local = row.at(5).get<Extents>();
  require(local == part.sizes,
          "[FSDP] '{}': \"{}\" with the shape {} needs a shard with the shape {} on rank {}, "
          "received {}",
          file,
          printable(tensor.name),
          extents_text(tensor.shape),
          extents_text(part.sizes),
          rank,
          extents_text(local));
  if (part.repeated || std::ranges::find(local, 0) != local.end()) return;
  auto& box = checkpoint.tensors[place].boxes.emplace_back(
      box_of(tensor.shape, part.first, part.sizes, row.at(6)));
  row.at(7).get_to(box.offset);
  box.file = rank;
}

void add_rank(Checkpoint& checkpoint,
              const RankedTensors& tensors,
              const nlohmann::json& saved,
              std::size_t rank) {
  const auto &first = checkpoint.files.front(), &file = checkpoint.files[rank];
  require_dtensors(file, saved.at("plain"));
  for (const auto& mesh : saved.at("meshes"))
    require_place(file, static_cast<std::int64_t>(rank), std::ssize(checkpoint.files), mesh);
  std::set<std::size_t> had;
  for (const auto& row : saved.at("tensors")) {
    const auto tensor = described(row, saved.at("meshes"));
    const auto found = tensors.places.find(tensor.name);
    require(found != tensors.places.end(),
            "[FSDP] '{}' has the tensor \"{}\", but '{}' lacks this tensor",
            file,
            printable(tensor.name),
            first);
    require_same(first, tensors.of[found->second], file, tensor);
    add_part(checkpoint, found->second, tensor, rank, row);
    had.insert(found->second);
  }
  for (std::size_t i = 0; i < tensors.of.size(); ++i)
    require(had.contains(i),
            "[FSDP] '{}' has no tensor \"{}\", but '{}' has this tensor",
            file,
            printable(tensors.of[i].name),
            first);
}

}  // namespace

Checkpoint read_fsdp_ranks(const fs::path& folder) {
  Checkpoint checkpoint{.path = folder, .format = "FSDP", .files = fsdp_files(folder)};
  checkpoint.weights = checkpoint.files.front();
  checkpoint.across_files = true;
  for (const auto& file : checkpoint.files) checkpoint.guard.add(file);
  std::vector<nlohmann::json> saved(checkpoint.files.size());
  in_parallel(std::ssize(saved), available_threads(), [&](std::int64_t rank) {
    saved[rank] = read_pickle_json("fsdp", fsdp_scope, checkpoint.files[rank]);
  });
  if (saved.size() == 1 && saved.front().at("tensors").empty()) {
    checkpoint.tensors = read_tensor_table(checkpoint.weights);
    return checkpoint;
  }
  const auto tensors = described_by(saved.front());
  for (const auto& tensor : tensors.of)
    checkpoint.tensors.push_back(
        {.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape});
  for (std::size_t rank = 0; rank < saved.size(); ++rank)
    add_rank(checkpoint, tensors, saved[rank], rank);
  return checkpoint;
}

}  // namespace dimred::checkpoints
