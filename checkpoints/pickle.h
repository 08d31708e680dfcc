#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoints/weights_readers.h"

// A state dict's pickle, read by a machine that knows values and tensors and can call nothing.
// Pickle's own machine calls whatever function a file names. Opcodes: Python's Lib/pickletools.py;
// what torch.save writes: torch/serialization.py, torch/_utils.py.
namespace dimred::checkpoints {

struct PickleValue {
  enum class Kind {
    none,
    boolean,
    integer,
    number,
    text,        // or bytes
    sequence,    // tuple or list: items
    dictionary,  // entries
    global,      // text = "module.name", one of the few that are known
    storage,     // text = key of the archive, element, integer = elements
    tensor       // items = {storage, offset, shape, stride}
  };
  Kind kind = Kind::none;
  std::int64_t integer = 0;
  std::string text;
  ElementType element = ElementType::f32;
  std::vector<const PickleValue*> items;
  std::vector<std::pair<const PickleValue*, const PickleValue*>> entries;
};

/// All values of one pickle; `top` is what it stands for.
struct Pickle {
  std::deque<PickleValue> values;
  const PickleValue* top = nullptr;
};

enum class PickleContent {
  weights,  // values and tensors
  values    // nothing that a module's name stands for
};

/// Allowed are None, booleans, numbers, texts, tuples, lists, dictionaries,
/// collections.OrderedDict, tensors and parameters of torch's dense storages; at most a million
/// values. Throws std::runtime_error with the rule and the byte for anything else: "asks for
/// posix.system at byte 12, ...". Containers may share values, but none is followed here, so a
/// cycle does no harm.
std::unique_ptr<Pickle> read_pickle(std::span<const std::uint8_t> bytes,
                                    PickleContent content = PickleContent::weights);

}  // namespace dimred::checkpoints
