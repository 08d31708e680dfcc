#include "merge/adapters.h"

#include <algorithm>
#include <memory>
#include <set>

#include "checkpoints/float_sums.h"
#include "checkpoints/safetensors.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/option_values.h"
#include "support/parallel.h"

namespace dimred::merge {
namespace {

namespace fs = std::filesystem;
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
    require(known && (!axis || tensor.shape.size() > *axis),
            "[merge] needs lora_A and lora_B of plain LoRA, received '{}' with \"{}\"",
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

void require_same_form(const Input& expected,
                       const StoredTensor& tensor,
                       const Input& received,
                       const StoredTensor& other) {
  require(tensor.dtype == other.dtype && form_of(tensor) == form_of(other),
          "[merge] '{}' and '{}' have \"{}\" in other types or shapes",
          expected.path,
          received.path,
          printable(tensor.name));
}

/// The place of each of the first one's tensors in another.
std::vector<std::size_t> places_in(const Input& expected, const Input& received) {
  std::map<std::string_view, std::size_t> named;
  for (std::size_t i = 0; i < received.tensors.size(); ++i) named[received.tensors[i].name] = i;
  std::vector<std::size_t> places;
  for (const auto& tensor : expected.tensors) {
    const auto found = named.find(tensor.name);
    require(found != named.end(),
            "[merge] '{}' has no \"{}\", which '{}' has",
            received.path,
            printable(tensor.name),
            expected.path);
    places.push_back(found->second);
    require_same_form(expected, tensor, received, received.tensors[found->second]);
    named.erase(found);
  }
  require(named.empty(),
          "[merge] '{}' has \"{}\", which '{}' has not",
          received.path,
          named.empty() ? "" : printable(named.begin()->first),
          expected.path);
  return places;
}

void require_same_base(const LoraConfig& a, const LoraConfig& b) {
  for (const auto* name : {"base_model_name_or_path", "fan_in_fan_out", "bias"})
    require(a.json.value(name, nlohmann::ordered_json()) ==
                b.json.value(name, nlohmann::ordered_json()),
            "[merge] '{}' and '{}' differ in {}; --allow_different_config merges the adapters all "
            "the same",
            a.file,
            b.file,
            name);
}

std::vector<std::byte> stored_bytes(const Input& input, const StoredTensor& tensor) {
  std::vector<std::byte> bytes(tensor.bytes());
  checkpoints::TensorReader(input.files, 1).read(tensor, 0, bytes);
  return bytes;
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
             const checkpoints::PlannedTensor& planned)
      : part_(part), inputs_(inputs), adapters_(adapters), planned_(planned) {}

  std::vector<std::byte> bytes() {
    const auto& like = inputs_.front().tensors[planned_.index];
    if (!checkpoints::is_summed(like)) {
      return stored_bytes(inputs_[part_.copied_from], source(part_.copied_from));
    }
    sums_.assign(planned_.bytes / (checkpoints::bits_of(planned_.dtype) / 8), 0);
    std::int64_t begin = 0;
    for (std::size_t place = 0; place < part_.inputs.size(); ++place) begin += take(place, begin);
    std::vector<std::byte> bytes(planned_.bytes);
    const auto bad = checkpoints::store_rounded(planned_.dtype, sums_, 1, bytes);
    require(!bad,
            "[merge] the mean of \"{}\" at element {} is beyond the range of {}",
            printable(planned_.name),
            bad.value_or(0),
            planned_.dtype);
    return bytes;
  }

 private:
  const StoredTensor& source(std::size_t input) const {
    return tensor_of(inputs_, adapters_, planned_.index, input);
  }

  /// Adds an input's tensor, or puts its factor behind those before, from rank `begin` on; returns
  /// its rank.
  std::int64_t take(std::size_t place, std::int64_t begin) {
    const auto input = part_.inputs[place];
    const auto& tensor = source(input);
    const auto share = share_of(part_, adapters_, inputs_, planned_.index, place);
    const auto axis = rank_axis(tensor);
    if (!axis) {
      add_tensor(inputs_[input], tensor, share, place == 0, sums_);
      return 0;
    }
    std::vector<double> values(tensor.elements());
    add_tensor(inputs_[input], tensor, share, true, values);
    put(values, rank_in(tensor), begin, *axis);
    return rank_in(tensor);
  }

  /// Copies a factor's values to where the mean has ranks [begin, begin + rank).
  void put(const std::vector<double>& values,
           std::int64_t rank,
           std::int64_t begin,
           std::size_t axis) {
    const auto all = planned_.shape[axis];
    const auto outer = axis == 0 ? 1 : planned_.shape[0];
    const auto inner = rank * outer == 0 ? 0 : std::ssize(values) / (rank * outer);
    for (std::int64_t i = 0; i < outer; ++i)
      std::copy_n(values.begin() + i * rank * inner,
                  rank * inner,
                  sums_.begin() + (i * all + begin) * inner);
  }

  const Part& part_;
  const std::vector<Input>& inputs_;
  const Adapters& adapters_;
  const checkpoints::PlannedTensor& planned_;
  std::vector<double> sums_;
};

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
    require_environment(of.first > 0 && of.first == of.second,
                        "[merge] '{}' is damaged: the factors of \"{}\" have ranks {} and {}",
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

void add_tensor(const Input& input,
                const StoredTensor& tensor,
                double share,
                bool first,
                std::span<double> sums) {
  checkpoints::add_stored(tensor.dtype, stored_bytes(input, tensor), share, first, sums);
}

void require_equal_copies(const Part& part, const std::vector<Input>& inputs, const Digests& read) {
  for (std::size_t t = 0; t < inputs.front().tensors.size(); ++t) {
    const auto& like = inputs.front().tensors[t];
    if (checkpoints::is_summed(like) || like.role == checkpoints::Role::statistic) continue;
    for (const auto input : part.inputs)
      require(read[input][t] == read[part.copied_from][t],
              "[merge] \"{}\" ({}) differs between '{}' and '{}': it is not summed; --copy_from "
              "says whose is taken",
              printable(like.name),
              like.dtype,
              inputs[part.copied_from].path,
              inputs[input].path);
  }
}

bool is_adapter(const Input& input) {
  return !input.folder().empty() && fs::exists(input.folder() / adapter_config_name);
}

Adapters read_adapters(std::vector<Input>& inputs, bool may_have_other_bases) {
  Adapters adapters;
  const auto& first = inputs.front();
  adapters.places.resize(first.tensors.size());
  for (auto& input : inputs) {
    input.guard.add(input.folder() / adapter_config_name);
    adapters.configs.push_back(read_lora_config(input.folder()));
    require_known_form(input);
    take_ranks(adapters, input);
    const auto places = places_in(first, input);
    for (std::size_t i = 0; i < places.size(); ++i) adapters.places[i].push_back(places[i]);
    if (!may_have_other_bases) require_same_base(adapters.configs.front(), adapters.configs.back());
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
            "[merge] {} needs one line for both factors of \"{}\"",
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

Digests digests_of(const std::vector<Input>& inputs,
                   const Adapters& adapters,
                   std::int64_t threads) {
  Digests digests(inputs.size());
  in_parallel(std::ssize(inputs), threads, [&](std::int64_t i) {
    for (std::size_t t = 0; t < adapters.places.size(); ++t) {
      const auto& tensor = tensor_of(inputs, adapters, t, i);
      const auto bytes = stored_bytes(inputs[i], tensor);
      const bool floats = checkpoints::is_float_type(tensor.dtype);
      const auto bad = floats ? checkpoints::first_not_finite(tensor.dtype, bytes) : std::nullopt;
      require(!bad,
              "[merge] '{}': \"{}\" needs finite values, received another at element {}",
              inputs[i].path,
              printable(tensor.name),
              bad.value_or(0));
      DigestStream digest;
      digest.update(bytes);
      digests[i].push_back(digest.hex());
    }
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

std::vector<std::string> write_mean(const Part& part,
                                    const std::vector<Input>& inputs,
                                    const Adapters& adapters,
                                    const checkpoints::Shard& shard,
                                    const PassOptions& options,
                                    const checkpoints::Output& output) {
  std::vector<std::string> digests(inputs.front().tensors.size());
  AtomicFile file(output.path(part.folder / shard.name));
  file.reserve(shard.bytes);
  file.write_at(0, shard.head);
  in_parallel(std::ssize(shard.tensors), options.threads, [&](std::int64_t i) {
    if (options.stop != nullptr && *options.stop) fail_environment("[merge] stopped");
    const auto& planned = shard.tensors[i];
    const auto bytes = MeanTensor(part, inputs, adapters, planned).bytes();
    DigestStream digest;
    digest.update(bytes);
    digests[planned.index] = digest.hex();
    file.write_at(planned.offset, bytes);
  });
  for (const auto& input : inputs) input.guard.require_unchanged("merge");
  file.commit();
  return digests;
}

}  // namespace dimred::merge
