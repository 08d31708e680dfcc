#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/artifact.h"
#include "checkpoints/frozen_part.h"
#include "checkpoints/runs.h"
#include "checkpoints/stored_tensor.h"
#include "support/atomic_file.h"
#include "support/file_state.h"

namespace dimred::checkpoints {

/// One set of weights: where its tensors lie, before any value is read.
struct Checkpoint {
  std::filesystem::path path;     // as a person calls it: a folder or a file
  std::filesystem::path weights;  // the file, index, .metadata or state of its tensors
  std::string format;             // "safetensors", "PyTorch", "MindSpore", "shards", "snapshot",
                                  // "state", "torch.distributed.checkpoint", "FSDP", "DeepSpeed"
  std::vector<std::filesystem::path> files;
  std::vector<StoredTensor> tensors;  // by file, in the file's order; StoredBox::file is a place
                                      // in `files`
  std::vector<std::string> left_out;  // names of what is no weight of the network: training state
  std::vector<std::string> remarks;   // what a person should know of the choice, a line each
  std::string averaging;  // what a PyTorch file says of its weights: "averaged", "raw", or of a
                          // schedule-free optimizer "eval mode", "train mode"; empty: nothing
  RunIdentity run;        // of a snapshot or a state
  std::optional<std::int64_t> held_step;  // by a snapshot's file, whatever its name says
  std::optional<FrozenPart> frozen;       // of a snapshot; its tensors are among `tensors`
  bool across_files = false;              // a tensor may lie in several files
  std::size_t lent =
      0;            // of `files`, the last ones: another checkpoint's, whose tensors are new here
  FileGuard guard;  // of the files and an index, before the first byte of each was read

  /// Whether the weights have a folder of their own, with configuration and tokenizer.
  bool in_folder() const { return path != weights; }
  /// Whether the tensor lies in a file of this checkpoint.
  bool owns(const StoredTensor& tensor) const {
    return lent == 0 || tensor.boxes.empty() || tensor.boxes.front().file + lent < files.size();
  }
  /// Returns true for an adapter of PEFT: with adapter_config.json, and under an adapter's name or
  /// with its tensors.
  bool is_adapter() const;
  /// The folder whose side files go with the weights; empty: none.
  std::filesystem::path folder() const;
};

/// Whether a remark says how a file's tensors are named, or which networks of it are left out;
/// every reader of it passes it on.
bool is_about_tensors(std::string_view remark);

/// Throws std::invalid_argument("[scope] ...") where some members give averaged weights and others
/// do not: nothing is the mean of both.
void require_one_averaging(const std::vector<MemberFacts>& members, std::string_view scope);

struct OpenOptions {
  std::string_view scope = "checkpoints";  // of messages
  bool as_saved = false;  // MindSpore's names stay; training state is among `tensors`
  std::string take;       // of a file that holds raw and averaged weights: raw, averaged; empty:
                          // the network as programs name it, and a remark says which that is
};

/// Opens one set of weights: of a weight file (read_tensor_table); of shards that an index names,
/// {"weight_map": {tensor: file beside the index}}; of a distributed checkpoint; of a folder of
/// files of ranks (read_fsdp_ranks, read_deepspeed_ranks); of a snapshot, with its frozen part; of
/// a folder with one of these; of a state; of a run, final.h5 or else its newest state. Throws
/// std::invalid_argument for a path of several sets, naming its newest and `dimred merge`, for a
/// part of a checkpoint and for a shard that is not there; std::runtime_error for a damaged file,
/// and for shards whose tensors differ from the index. Cost: headers; of snapshots, states and
/// PyTorch's and MindSpore's files all bytes are read once, to compare their digests.
Checkpoint open_checkpoint(const std::filesystem::path& path, const OpenOptions& options = {});

/// Reads the tensors of a file, an index or .metadata of that kind, as open_checkpoint() does.
Checkpoint read_checkpoint(const std::filesystem::path& weights,
                           ArtifactKind kind,
                           const OpenOptions& options = {});

/// Adds the tensors of one more file.
void add_file(Checkpoint& checkpoint,
              const std::filesystem::path& file,
              std::vector<StoredTensor> tensors);

/// Moves the names of training state from `tensors` to `left_out`.
void leave_out_training_state(Checkpoint& checkpoint);

/// Throws std::invalid_argument("[scope] ...") for a repeated name and for a type that safetensors
/// lacks.
void require_readable(const Checkpoint& checkpoint, std::string_view scope);

/// Reads bytes of a checkpoint's tensors, in any order and from several threads.
class TensorReader {
 public:
  /// Keeps the first `most_open` files open; the others are opened for each read.
  explicit TensorReader(std::vector<std::filesystem::path> files, std::size_t most_open);
  explicit TensorReader(const Checkpoint& checkpoint);

  /// out.size() bytes from element `first` on, as a file in the shape's order has them; of types
  /// whose elements have fewer bits than a byte, `first` counts bytes.
  void read(const StoredTensor& tensor, std::int64_t first, std::span<std::byte> out) const;

 private:
  std::vector<std::filesystem::path> files_;
  std::vector<std::unique_ptr<InputFile>> open_;
};

}  // namespace dimred::checkpoints
