#include "merge/adapters.h"

#include <algorithm>
#include <set>

#include "checkpoints/float_sums.h"
#include "checkpoints/safetensors.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/file_limit.h"
#include "support/json.h"
#include "support/parallel.h"
#include "support/printable.h"

namespace dimred::merge {
namespace {

namespace fs = std::filesystem;
using checkpoints::adapter_config_name;
using checkpoints::lora_factor;
using checkpoints::LoraConfig;
using checkpoints::LoraFactor;
using checkpoints::StoredTensor;
using Side = LoraFactor::Side;

/// The dimension along which a factor is as long as its rank; nullopt: none.
std::optional<std::size_t> rank_axis(const StoredTensor& tensor) {
  const auto factor = lora_factor(tensor.name);
  if (!factor || factor->side == Side::bias) return {};
  return factor->side == Side::a ? 0 : 1;
}

std::int64_t rank_in(const StoredTensor& tensor) {
  return tensor.shape.at(rank_axis(tensor).value());
}

void require_known_form(const Input& input) {
  for (const auto& tensor : input.tensors) {
    const auto axis = rank_axis(tensor);
    const bool known = tensor.role != checkpoints::Role::adapter || lora_factor(tensor.name);
    require(
        known && (!axis || tensor.shape.size() > *axis),
        "[merge] needs adapters of plain LoRA with lora_A and lora_B, received '{}' with \"{}\"",
        input.path,
        printable(tensor.name));
  }
}

/// The shape with the rank left out.
std::vector<std::int64_t> form_of(const StoredTensor& tensor) {
  auto shape = tensor.shape;
  if (const auto axis = rank_axis(tensor)) shape[*axis] = 0;
  return shape;
}

/// The place of each of the first one's tensors in another, which has them in the same form.
std::vector<std::size_t> places_in_same_form(const Input& expected, const Input& received) {
  return places_in(expected, received, [&](const StoredTensor& tensor, const StoredTensor& other) {
    require(tensor.dtype == other.dtype && form_of(tensor) == form_of(other),
            "[merge] '{}' and '{}' have \"{}\" in different types or shapes",
            expected.path,
            received.path,
            printable(tensor.name));
  });
}

void require_same_base(const LoraConfig& a, const LoraConfig& b) {
  for (const auto* name : {"base_model_name_or_path", "fan_in_fan_out", "bias"})
    require(a.json.value(name, nlohmann::ordered_json()) ==
                b.json.value(name, nlohmann::ordered_json()),
            "[merge] '{}' and '{}' differ in {}; give --allow_different_config to merge the "
            "adapters anyway",
            a.file,
            b.file,
            name);
}

/// The ranks of a factor in the inputs of a part, summed.
std::int64_t summed_rank(const Part& part,
                         const std::vector<Input>& inputs,
                         const Adapters& adapters,
                         std::size_t tensor) {
  std::int64_t sum = 0;
  for (const auto input : part.inputs) sum += rank_in(tensor_of(inputs, adapters, tensor, input));
  return sum;
}

/// A tensor of the mean on its way to its file.
class MeanTensor {
 public:
  MeanTensor(const Part& part,
             const std::vector<Input>& inputs,
             const Adapters& adapters,
             const PassOptions& options,
             const checkpoints::PlannedTensor& planned)
      : part_(part),
        inputs_(inputs),
        adapters_(adapters),
        options_(options),
        planned_(planned),
        like_(inputs.front().tensors[planned.index]),
        axis_(rank_axis(like_)),
        unit_(std::max<std::int64_t>(1, checkpoints::bits_of(planned.dtype) / 8)),
        count_(planned.bytes / unit_) {}

  void write(checkpoints::TensorStream& output) {
    const auto block = block_of(options_.block);
    for (std::int64_t first = 0; first < count_; first += block) {
      options_.require_running();
      const auto count = std::min(block, count_ - first);
      stored_.resize(count * unit_);
      if (checkpoints::is_summed(like_)) {
        sum(first, count);
        output.append_rounded(planned_.dtype, sums_, stored_);
      } else {
        copy(first);
        output.append(stored_);
      }
    }
  }

 private:
  const StoredTensor& source(std::size_t input) const {
    return tensor_of(inputs_, adapters_, planned_.index, input);
  }

  /// Elements of the mean behind one place along the axis of ranks.
  std::int64_t inner() const {
    const auto places = *axis_ == 0 ? planned_.shape[0] : planned_.shape[0] * planned_.shape[1];
    return places == 0 ? 0 : count_ / places;
  }

  /// Whole rows where each one has ranks of all inputs.
  std::int64_t block_of(std::int64_t most) const {
    if (!axis_ || *axis_ == 0) return most;
    const auto row = std::max<std::int64_t>(1, planned_.shape[1] * inner());
    return std::max<std::int64_t>(1, most / row) * row;
  }

  void copy(std::int64_t first) {
    adapters_.readers[part_.copied_from].read(source(part_.copied_from), first, stored_);
    add_done(options_.progress, std::ssize(stored_));
  }

  void sum(std::int64_t first, std::int64_t count) {
    sums_.assign(count, 0);
    std::int64_t begin = 0;
    for (std::size_t place = 0; place < part_.inputs.size(); ++place)
      begin += take(place, begin, first);
    const auto bad = checkpoints::store_rounded(planned_.dtype, sums_, 1, stored_);
    require(!bad,
            "[merge] the mean of \"{}\" at element {} is beyond the range of {}",
            printable(planned_.name),
            first + bad.value_or(0),
            planned_.dtype);
  }

  /// Adds an input's elements, or puts its factor behind those before, from rank `begin` on;
  /// returns its rank.
  std::int64_t take(std::size_t place, std::int64_t begin, std::int64_t first) {
    if (!axis_) {
      add(place, first, place == 0, sums_);
      return 0;
    }
    const auto rank = rank_in(source(part_.inputs[place]));
    if (*axis_ == 0)
      put_ranks(place, rank, begin, first);
    else
      put_columns(place, rank, begin, first);
    return rank;
  }

  void add(std::size_t place, std::int64_t first, bool replace, std::span<double> sums) const {
    const auto share = share_of(part_, adapters_, inputs_, planned_.index, place);
    const auto input = part_.inputs[place];
    add_elements(inputs_, adapters_, planned_.index, input, first, share, replace, sums);
    add_done(options_.progress, std::ssize(sums) * source(input).unit());
  }

  /// The elements of A that lie in the block: the mean has ranks [begin, begin + rank) of it.
  void put_ranks(std::size_t place, std::int64_t rank, std::int64_t begin, std::int64_t first) {
    const auto from = std::max(first, begin * inner());
    const auto to = std::min(first + std::ssize(sums_), (begin + rank) * inner());
    if (from < to)
      add(place, from - begin * inner(), true, std::span(sums_).subspan(from - first, to - from));
  }

  /// The elements of B in the block's rows: the mean has columns [begin, begin + rank) of it.
  void put_columns(std::size_t place, std::int64_t rank, std::int64_t begin, std::int64_t first) {
    const auto row = planned_.shape[1] * inner(), own = rank * inner();
    const auto rows = std::ssize(sums_) / row;
    values_.resize(rows * own);
    add(place, first / row * own, true, values_);
    for (std::int64_t i = 0; i < rows; ++i)
      std::copy_n(values_.begin() + i * own, own, sums_.begin() + i * row + begin * inner());
  }

  const Part& part_;
  const std::vector<Input>& inputs_;
  const Adapters& adapters_;
  const PassOptions& options_;
  const checkpoints::PlannedTensor& planned_;
  const StoredTensor& like_;
  std::optional<std::size_t> axis_;
  std::int64_t unit_;
  std::int64_t count_;
  std::vector<double> sums_, values_;
  std::vector<std::byte> stored_;
};

/// The digest of an input's tensor.
std::string digest_of_tensor(const Input& input,
                             const StoredTensor& tensor,
                             const checkpoints::TensorReader& reader,
                             const PassOptions& options) {
  const auto unit = tensor.unit();
  const auto count = tensor.bytes() / unit;
  const bool floats = checkpoints::is_float_type(tensor.dtype);
  std::vector<std::byte> bytes;
  DigestStream digest;
  for (std::int64_t first = 0; first < count; first += options.block) {
    options.require_running();
    bytes.resize(std::min(options.block, count - first) * unit);
    reader.read(tensor, first, bytes);
    const auto bad = floats ? checkpoints::first_not_finite(tensor.dtype, bytes) : std::nullopt;
    require(!bad,
            "[merge] '{}': \"{}\" needs finite values, but element {} is not finite",
            input.path,
            printable(tensor.name),
            first + bad.value_or(0));
    digest.update(bytes);
    add_done(options.progress, std::ssize(bytes));
  }
  return digest.hex();
}

/// The configuration of the mean: of this rank, with the scale 1. `ranks`: of each module where
/// they differ, else empty.
nlohmann::ordered_json config_of_mean(const LoraConfig& like,
                                      std::int64_t rank,
                                      std::vector<std::pair<std::string, std::int64_t>> ranks) {
  auto json = like.json;
  json["r"] = rank;
  json["lora_alpha"] = rank;
  json["use_rslora"] = false;
  json["init_lora_weights"] = true;
  // PEFT takes the first whose end matches, so that longer names go first.
  std::ranges::stable_sort(
      ranks, std::ranges::greater(), [](const auto& entry) { return entry.first.size(); });
  auto by_module = nlohmann::ordered_json::object();
  for (const auto& [module, of_module] : ranks) append_value(by_module, module, of_module);
  json["rank_pattern"] = by_module;
  json["alpha_pattern"] = by_module;
  return json;
}

/// Takes the ranks of an input's modules, whose two factors have the same.
void take_ranks(Adapters& adapters, const Input& input) {
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> ranks;  // of A and B
  for (const auto& tensor : input.tensors) {
    const auto factor = lora_factor(tensor.name);
    if (!factor || factor->side == Side::bias) continue;
    auto& [a, b] = ranks[factor->module];
    (factor->side == Side::a ? a : b) = rank_in(tensor);
  }
  for (const auto& [module, of] : ranks) {
    require_environment(
        of.first > 0 && of.first == of.second,
        "[merge] '{}' is damaged: the factors of \"{}\" have different ranks, {} and {}",
        input.path,
        printable(module),
        of.first,
        of.second);
    adapters.ranks[module].push_back(of.first);
    (void)adapters.configs.back().scale_of(module, of.first);  // refuses another rank, in time
  }
}

}  // namespace

const StoredTensor& tensor_of(const std::vector<Input>& inputs,
                              const Adapters& adapters,
                              std::size_t tensor,
                              std::size_t input) {
  return inputs[input].tensors[adapters.places[tensor][input]];
}

void add_elements(const std::vector<Input>& inputs,
                  const Adapters& adapters,
                  std::size_t tensor,
                  std::size_t input,
                  std::int64_t first,
                  double share,
                  bool replace,
                  std::span<double> sums) {
  const auto& stored = tensor_of(inputs, adapters, tensor, input);
  std::vector<std::byte> bytes(std::ssize(sums) * stored.unit());
  adapters.readers[input].read(stored, first, bytes);
  checkpoints::add_stored(stored.dtype, bytes, share, replace, sums);
}

void require_equal_copies(const Part& part,
                          const std::vector<Input>& inputs,
                          const checkpoints::TensorDigests& read) {
  for (std::size_t t = 0; t < inputs.front().tensors.size(); ++t) {
    const auto& like = inputs.front().tensors[t];
    if (checkpoints::is_summed(like) || like.role == checkpoints::Role::statistic) continue;
    for (const auto input : part.inputs)
      require(read[input][t] == read[part.copied_from][t],
              "[merge] \"{}\" ({}) differs between '{}' and '{}', but dimred does not average "
              "values of this type; choose the values of one checkpoint with --copy_from",
              printable(like.name),
              like.dtype,
              inputs[part.copied_from].path,
              inputs[input].path);
  }
}

Adapters read_adapters(std::vector<Input>& inputs, bool may_have_other_bases) {
  Adapters adapters;
  const auto& first = inputs.front();
  adapters.places.resize(first.tensors.size());
  auto left = most_open_files() / 2;  // a base and what is written have the rest
  for (auto& input : inputs) {
    input.guard.add(input.folder() / adapter_config_name);
    adapters.configs.push_back(checkpoints::read_lora_config(input.folder(), "merge"));
    require_known_form(input);
    take_ranks(adapters, input);
    const auto places = places_in_same_form(first, input);
    for (std::size_t i = 0; i < places.size(); ++i) adapters.places[i].push_back(places[i]);
    if (!may_have_other_bases) require_same_base(adapters.configs.front(), adapters.configs.back());
    adapters.readers.emplace_back(input.files, left);
    left -= std::min(left, input.files.size());
  }
  return adapters;
}

void require_one_rule(const Part& part, const Input& like) {
  if (part.rules.empty()) return;
  std::map<std::string, std::size_t> of_module;
  for (std::size_t i = 0; i < like.tensors.size(); ++i) {
    const auto factor = lora_factor(like.tensors[i].name);
    if (!factor) continue;
    const auto [at, fresh] = of_module.emplace(factor->module, part.rule_of[i]);
    require(at->second == part.rule_of[i],
            "[merge] {}: \"{}\": one line must match both lora_A and lora_B",
            part.kind,
            printable(factor->module));
  }
}

double share_of(const Part& part,
                const Adapters& adapters,
                const std::vector<Input>& inputs,
                std::size_t tensor,
                std::size_t place) {
  const auto input = part.inputs[place];
  const auto& stored = tensor_of(inputs, adapters, tensor, input);
  const auto factor = lora_factor(stored.name);
  if (factor && factor->side == Side::a) return 1;
  const auto& shares = part.coefficients_of_tensor(tensor);
  const auto share = shares.weights[place] / shares.divisor;
  if (!factor) return share;
  return share *
         adapters.configs[input].scale_of(factor->module, adapters.ranks.at(factor->module)[input]);
}

checkpoints::TensorDigests digests_of(const std::vector<Input>& inputs,
                                      const Adapters& adapters,
                                      const PassOptions& options) {
  checkpoints::TensorDigests digests(inputs.size());
  in_parallel(std::ssize(inputs), options.threads, [&](std::int64_t i) {
    for (std::size_t t = 0; t < adapters.places.size(); ++t)
      digests[i].push_back(digest_of_tensor(
          inputs[i], tensor_of(inputs, adapters, t, i), adapters.readers[i], options));
  });
  return digests;
}

std::vector<checkpoints::PlannedTensor> planned_mean(const Part& part,
                                                     const std::vector<Input>& inputs,
                                                     const Adapters& adapters,
                                                     std::string_view dtype) {
  auto planned = checkpoints::planned_tensors(inputs.front(), dtype);
  for (auto& tensor : planned) {
    tensor.group = 0;  // PEFT reads one file
    const auto axis = rank_axis(inputs.front().tensors[tensor.index]);
    if (!axis) continue;
    tensor.shape[*axis] = summed_rank(part, inputs, adapters, tensor.index);
    tensor.bytes = checkpoints::bytes_of(tensor.dtype, tensor.shape);
  }
  return planned;
}

std::string mean_config_text(const Part& part,
                             const std::vector<Input>& inputs,
                             const Adapters& adapters) {
  std::vector<std::pair<std::string, std::int64_t>> ranks;
  std::int64_t widest = 0;
  std::set<std::int64_t> different;
  for (std::size_t i = 0; i < inputs.front().tensors.size(); ++i) {
    const auto factor = lora_factor(inputs.front().tensors[i].name);
    if (!factor || factor->side != Side::a) continue;
    ranks.emplace_back(factor->module, summed_rank(part, inputs, adapters, i));
    widest = std::max(widest, ranks.back().second);
    different.insert(ranks.back().second);
  }
  if (different.size() == 1) ranks.clear();
  return config_of_mean(adapters.configs[part.copied_from], widest, std::move(ranks)).dump(2) +
         "\n";
}

std::int64_t bytes_to_read(const Part& part,
                           const std::vector<Input>& inputs,
                           const Adapters& adapters,
                           const checkpoints::ShardWriter& writer) {
  std::int64_t bytes = 0;
  for (const auto* shard : writer.left()) {
    for (const auto& planned : shard->tensors) {
      const bool is_summed = checkpoints::is_summed(inputs.front().tensors[planned.index]);
      for (const auto input : part.inputs)
        if (is_summed || input == part.copied_from)
          bytes += tensor_of(inputs, adapters, planned.index, input).bytes();
    }
  }
  return bytes;
}

void write_mean(const Part& part,
                const std::vector<Input>& inputs,
                const Adapters& adapters,
                const PassOptions& options,
                checkpoints::ShardWriter& writer) {
  writer.write(
      options.threads,
      [&](const checkpoints::PlannedTensor& planned, std::span<checkpoints::TensorStream> streams) {
        MeanTensor(part, inputs, adapters, options, planned).write(streams.front());
        return std::vector<std::string>();
      },
      [&] {
        for (const auto& input : inputs) input.guard.require_unchanged("merge");
      });
}

}  // namespace dimred::merge
