#include "merge/pass.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>

#include "checkpoints/float_sums.h"
#include "checkpoints/safetensors.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/file_limit.h"

namespace dimred::merge {
namespace {

/// The outputs that are open at a time: a shard becomes durable while the next one is written.
std::size_t open_outputs(const std::vector<Part>& parts, const checkpoints::ShardPlan& plan) {
  return parts.size() * std::min<std::size_t>(2, plan.shards.size());
}

/// A reader of each input; `left` of their files stay open.
std::vector<checkpoints::TensorReader> readers_of(const std::vector<Input>& inputs,
                                                  std::size_t left) {
  std::vector<checkpoints::TensorReader> readers;
  for (const auto& input : inputs) {
    readers.emplace_back(input.files, left);
    left -= std::min(left, input.files.size());
  }
  return readers;
}

/// State that all tensors of a pass share.
struct Pass {
  const std::vector<Input>* inputs = nullptr;
  const std::vector<Part>* parts = nullptr;
  const Input* like = nullptr;
  const PassOptions* options = nullptr;
  std::vector<checkpoints::TensorReader> readers;                      // of each input
  std::vector<std::vector<const checkpoints::StoredTensor*>> sources;  // [tensor of `like`][input]
};

std::vector<std::vector<const checkpoints::StoredTensor*>> sources_of(
    const std::vector<Input>& inputs, const Input& like) {
  std::vector<std::vector<const checkpoints::StoredTensor*>> sources(like.tensors.size());
  for (const auto& input : inputs) {
    std::map<std::string_view, const checkpoints::StoredTensor*> named;
    for (const auto& tensor : input.tensors) named[tensor.name] = &tensor;
    for (std::size_t i = 0; i < sources.size(); ++i)
      sources[i].push_back(named.at(like.tensors[i].name));
  }
  return sources;
}

/// The part's place for an input; nullopt: it has no share in it.
std::optional<std::size_t> place_in(const Part& part, std::size_t input) {
  const auto found = std::ranges::lower_bound(part.inputs, input);
  if (found == part.inputs.end() || *found != input) return {};
  return found - part.inputs.begin();
}

/// One tensor on its way from all inputs to all outputs.
class TensorPass {
 public:
  TensorPass(const Pass& pass,
             const checkpoints::PlannedTensor& planned,
             std::span<checkpoints::TensorStream> outputs)
      : pass_(pass),
        planned_(planned),
        like_(pass.like->tensors[planned.index]),
        outputs_(outputs),
        unit_(like_.unit()),
        count_(like_.bytes() / unit_),
        block_(std::min(pass.options->block, count_)),
        read_(pass.inputs->size()),
        stored_(block_ * (checkpoints::is_summed(like_) ? sizeof(double) : unit_)),
        sums_(checkpoints::is_summed(like_) ? pass.parts->size() : 0, std::vector<double>(block_)) {
    for (const auto& part : *pass.parts) {
      const bool sums = checkpoints::is_summed(like_);
      addends_.push_back(sums && part.addend ? part.addend(planned.index) : Addend());
      replacements_.push_back(!sums && part.replacement ? part.replacement(planned.index)
                                                        : Replacement());
    }
  }

  /// Returns the digests of what was read.
  std::vector<std::string> run() {
    for (std::int64_t first = 0; first < count_; first += block_) {
      pass_.options->require_running();
      const auto count = std::min(block_, count_ - first);
      for (std::size_t i = 0; i < inputs_read(); ++i) take(i, first, count);
      add_done(pass_.options->progress, count * unit_ * static_cast<std::int64_t>(inputs_read()));
      if (!checkpoints::is_summed(like_)) continue;
      for (std::size_t p = 0; p < pass_.parts->size(); ++p) put_sum(p, first, count);
    }
    std::vector<std::string> digests;
    for (std::size_t i = 0; i < read_.size(); ++i)
      digests.push_back(read_[like_.shared ? 0 : i].hex());
    if (!checkpoints::is_summed(like_)) require_equal(digests);
    return digests;
  }

 private:
  std::size_t inputs_read() const { return like_.shared ? 1 : pass_.inputs->size(); }

  std::span<std::byte> read(std::size_t input, std::int64_t first, std::int64_t count) {
    const auto bytes = std::span(stored_).first(count * unit_);
    pass_.readers[input].read(source(input), first, bytes);
    return bytes;
  }

  const checkpoints::StoredTensor& source(std::size_t input) const {
    return *pass_.sources[planned_.index][input];
  }

  /// The next elements of an input, into all sums or, of a copied tensor, to where it is copied.
  void take(std::size_t input, std::int64_t first, std::int64_t count) {
    const auto bytes = read(input, first, count);
    read_[input].update(bytes);
    for (std::size_t p = 0; p < pass_.parts->size(); ++p) {
      const auto& part = (*pass_.parts)[p];
      if (!checkpoints::is_summed(like_)) {
        if (part.copied_from == input || like_.shared) put_copy(p, input, first, bytes);
      } else if (like_.shared) {
        checkpoints::add_stored(like_.dtype, bytes, 1, true, std::span(sums_[p]).first(count));
      } else if (const auto place = place_in(part, input)) {
        checkpoints::add_stored(like_.dtype,
                                bytes,
                                part.coefficients_of_tensor(planned_.index).weights[*place],
                                *place == 0,
                                std::span(sums_[p]).first(count));
      }
    }
  }

  void put_copy(std::size_t p, std::size_t input, std::int64_t first, ByteView bytes) {
    if (replacements_[p]) {
      std::vector<std::byte> replaced(bytes.size());
      replacements_[p](first, replaced);
      return outputs_[p].append({replaced.data(), replaced.size()});
    }
    if (checkpoints::is_float_type(like_.dtype))
      if (const auto bad = checkpoints::first_not_finite(like_.dtype, bytes))
        refuse_element(input, first + *bad);
    outputs_[p].append(bytes);
  }

  void put_sum(std::size_t p, std::int64_t first, std::int64_t count) {
    const auto& part = (*pass_.parts)[p];
    const auto sums = std::span(sums_[p]).first(count);
    const auto unit = checkpoints::bits_of(planned_.dtype) / 8;
    const auto bytes = std::span(stored_).first(count * unit);
    const double divisor = like_.shared ? 1 : part.coefficients_of_tensor(planned_.index).divisor;
    if (addends_[p]) addends_[p](first, sums);
    const auto scaled = [&](std::span<double> again) { add_scaled(part, first, again); };
    auto bad = !addends_[p] && like_.dtype == "F64"
                   ? checkpoints::store_within_range(planned_.dtype, sums, divisor, scaled, bytes)
                   : checkpoints::store_rounded(planned_.dtype, sums, divisor, bytes);
    if (bad && !addends_[p] && all_zero_ && take_mask(part, first, sums)) {
      mask_begin_ = mask_begin_ ? mask_begin_ : first + *bad;
      checkpoints::store_rounded(planned_.dtype, sums, 1, bytes);
    } else {
      const auto is_zero = [](double sum) { return sum == 0; };
      all_zero_ = all_zero_ && std::ranges::all_of(sums, is_zero);
      if (bad) refuse_value(part, first, count, *bad);
      if (mask_begin_ && !all_zero_) refuse_element(part.inputs.front(), *mask_begin_);
    }
    outputs_[p].append_rounded(planned_.dtype, sums, {bytes.data(), bytes.size()});
  }

  /// The sums of values near the end of float64, from parts that are small enough to be added.
  void add_scaled(const Part& part, std::int64_t first, std::span<double> sums) {
    const auto& weights = part.coefficients_of_tensor(planned_.index).weights;
    for (std::size_t i = 0; i < part.inputs.size(); ++i) {
      const auto stored = read(part.inputs[i], first, std::ssize(sums));
      checkpoints::add_stored(
          "F64", stored, weights[i] * checkpoints::overflow_scale, i == 0, sums);
    }
  }

  /// Whether these elements are 0 or -inf, the same in all inputs, as those of an attention mask
  /// are; then `values` are these.
  bool take_mask(const Part& part, std::int64_t first, std::span<double> values) {
    const auto is_masked = [](double value) { return value == 0 || value == -INFINITY; };
    std::vector<std::byte> expected;
    for (const auto input : part.inputs) {
      const auto bytes = read(input, first, std::ssize(values));
      if (expected.empty()) expected.assign(bytes.begin(), bytes.end());
      if (!std::ranges::equal(bytes, expected)) return false;
    }
    checkpoints::add_stored(like_.dtype, expected, 1, true, values);
    return std::ranges::all_of(values, is_masked);
  }

  [[noreturn]] void refuse_element(std::size_t input, std::int64_t element) const {
    const Input& from = (*pass_.inputs)[input];
    const checkpoints::StoredTensor& tensor = source(input);
    const bool in_one = tensor.boxes.size() == 1;
    refuse("[merge] '{}': \"{}\" needs finite values, but element {} is not finite",
           in_one ? from.files[tensor.boxes.front().file] : from.path,
           like_.name,
           element);
  }

  [[noreturn]] void refuse_value(const Part& part,
                                 std::int64_t first,
                                 std::int64_t count,
                                 std::int64_t bad) {
    for (const auto input : part.inputs) {
      if (const auto own = checkpoints::first_not_finite(like_.dtype, read(input, first, count)))
        refuse_element(input, first + *own);
    }
    refuse("[merge] the sum of \"{}\" at element {} is beyond the range of {}",
           like_.name,
           first + bad,
           planned_.dtype);
  }

  /// Requires that a copied tensor is the same in all inputs.
  void require_equal(const std::vector<std::string>& digests) const {
    const bool free = like_.role == checkpoints::Role::statistic ||
                      (pass_.options->may_differ && !is_quantised(like_));
    for (const auto& part : *pass_.parts) {
      for (const auto input : part.inputs) {
        if (free || digests[input] == digests[part.copied_from]) continue;
        const auto why = is_quantised(like_)
                             ? "dimred cannot average quantised values; merge the unquantised "
                               "checkpoints instead"
                             : "dimred does not average values of this type; choose the values of "
                               "one checkpoint with --copy_from";
        refuse("[merge] \"{}\" ({}) differs between '{}' and '{}': {}",
               like_.name,
               like_.dtype,
               (*pass_.inputs)[part.copied_from].path,
               (*pass_.inputs)[input].path,
               why);
      }
    }
  }

  const Pass& pass_;
  const checkpoints::PlannedTensor& planned_;
  const checkpoints::StoredTensor& like_;
  std::span<checkpoints::TensorStream> outputs_;  // of each part
  std::int64_t unit_;                             // bytes of an element
  std::int64_t count_;  // elements; bytes, where an element has fewer bits
  std::int64_t block_;
  std::vector<DigestStream> read_;  // of each input
  std::vector<std::byte> stored_;
  std::vector<std::vector<double>> sums_;  // of each part
  std::vector<Addend> addends_;            // of each part
  std::vector<Replacement> replacements_;  // of each part
  bool all_zero_ = true;                   // but for a mask's -inf, so far
  std::optional<std::int64_t> mask_begin_;
};

}  // namespace

void require_open_files(const std::vector<Part>& parts, const checkpoints::ShardPlan& plan) {
  require_environment(open_outputs(parts, plan) <= most_open_files(),
                      "[merge] {} merges write {} files at a time, but dimred opens at most {} "
                      "files (half of the limit); raise `ulimit -n`, or split the file of --sweep",
                      parts.size(),
                      open_outputs(parts, plan),
                      most_open_files());
}

void PassOptions::require_running() const {
  dimred::require_running(
      progress, "[merge] stopped; the same command continues after the last complete shard");
}

checkpoints::ShardWriter writer_of(const std::vector<Input>& inputs,
                                   const std::vector<Part>& parts,
                                   const checkpoints::ShardPlan& plan,
                                   const Input& like,
                                   const checkpoints::Output& output) {
  std::vector<std::filesystem::path> folders;
  for (const auto& part : parts) folders.push_back(part.folder);
  return {output, plan, std::move(folders), inputs.size(), like.tensors.size()};
}

std::int64_t bytes_to_read(const std::vector<Input>& inputs,
                           const Input& like,
                           const checkpoints::ShardWriter& writer) {
  std::int64_t bytes = 0;
  for (const auto* shard : writer.left()) {
    for (const auto& planned : shard->tensors) {
      const auto& tensor = like.tensors[planned.index];
      bytes += tensor.bytes() * (tensor.shared ? 1 : std::ssize(inputs));
    }
  }
  return bytes;
}

PassResult write_shards(const std::vector<Input>& inputs,
                        const std::vector<Part>& parts,
                        const checkpoints::ShardPlan& plan,
                        const Input& like,
                        const PassOptions& options,
                        checkpoints::ShardWriter& writer) {
  auto readers = readers_of(inputs, most_open_files() - open_outputs(parts, plan));
  const Pass pass{&inputs, &parts, &like, &options, std::move(readers), sources_of(inputs, like)};
  writer.write(
      options.threads,
      [&](const checkpoints::PlannedTensor& planned, std::span<checkpoints::TensorStream> streams) {
        return TensorPass(pass, planned, streams).run();
      },
      [&] {
        for (const auto& input : inputs) input.guard.require_unchanged("merge");
      });
  return {.read = writer.read(),
          .written = writer.written(),
          .vanished = writer.vanished(),
          .bytes_read = bytes_to_read(inputs, like, writer),
          .bytes_written = writer.bytes_left()};
}

}  // namespace dimred::merge
