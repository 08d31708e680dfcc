#include "checkpoints/pickle.h"

#include <map>

#include "checkpoints/pickle_stream.h"
#include "checkpoints/pickle_torch.h"

namespace dimred::checkpoints {
namespace {

using Kind = PickleValue::Kind;

constexpr std::size_t most_values = 1'000'000;
constexpr std::size_t most_dimensions = 64;

class Machine {
 public:
  Machine(std::span<const std::uint8_t> bytes, PickleContent content, Pickle& pickle)
      : stream_(bytes), content_(content), pickle_(pickle) {}

  void run() {
    while (step(stream_.next())) {
    }
    rule(stack_.size() == 1 && marks_.empty(), "needs one value at its end");
    pickle_.top = stack_.front();
  }

 private:
  template <class... Parts>
  void rule(bool holds, const Parts&... parts) const {
    stream_.rule(holds, parts...);
  }

  // The stack.
  PickleValue& add(Kind kind) {
    rule(pickle_.values.size() < most_values, "needs at most ", most_values, " values");
    return pickle_.values.emplace_back(PickleValue{.kind = kind});
  }
  PickleValue& push(Kind kind) {
    auto& value = add(kind);
    stack_.push_back(&value);
    return value;
  }
  void push_text(std::string text) { push(Kind::text).text = std::move(text); }
  void push_integer(std::int64_t value) { push(Kind::integer).integer = value; }
  /// Never below the last mark.
  PickleValue* pop() {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    rule(stack_.size() > floor, "needs a value, received none");
    auto* value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue* pop(Kind kind, std::string_view what) {
    auto* value = pop();
    rule(value->kind == kind, "needs ", what, ", received another value");
    return value;
  }
  std::vector<PickleValue*> pop_to_mark() {
    rule(!marks_.empty(), "needs a mark, received none");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PickleValue*> values(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return values;
  }
  void push_tuple(std::size_t size) {
    std::vector<const PickleValue*> items(size);
    for (std::size_t i = size; i-- > 0;) items[i] = pop();
    push(Kind::sequence).items = std::move(items);
  }
  PickleValue* top(Kind kind, std::string_view what) {
    auto* value = pop(kind, what);
    stack_.push_back(value);
    return value;
  }
  void set(const std::vector<PickleValue*>& values) {
    auto* target = top(Kind::dictionary, "a dictionary");
    rule(values.size() % 2 == 0, "needs pairs of key and value");
    for (std::size_t i = 0; i < values.size(); i += 2)
      target->entries.emplace_back(values[i], values[i + 1]);
  }
  void append(const std::vector<PickleValue*>& values) {
    auto* target = top(Kind::sequence, "a list");
    target->items.insert(target->items.end(), values.begin(), values.end());
  }
  void put(std::uint64_t key) {
    auto* value = pop();
    stack_.push_back(value);
    memo_[key] = value;
  }
  void get(std::uint64_t key) {
    const auto found = memo_.find(key);
    rule(found != memo_.end(), "needs a value remembered before, received number ", key);
    stack_.push_back(found->second);
  }

  void push_global(const std::string& module, const std::string& name) {
    auto global = concat(module, '.', name);
    rule(content_ == PickleContent::weights,
         "asks for ",
         global,
         ", which plain values do not need; refused, nothing of it was run,");
    rule(is_known_global(global),
         "asks for ",
         global,
         ", which weights alone do not need; refused, nothing of it was run (save the weights "
         "alone: "
         "torch.save(model.state_dict(), FILE)),");
    push(Kind::global).text = std::move(global);
  }
  void push_storage() {
    auto storage = storage_from(pop(Kind::sequence, "a tuple")->items);
    rule(storage.has_value(), "needs a storage of torch's, received another persistent id");
    push(Kind::storage) = std::move(*storage);
  }
  void call() {
    const auto& arguments = pop(Kind::sequence, "a tuple of arguments")->items;
    const auto& global = pop(Kind::global, "a function")->text;
    auto value = called(global, arguments);
    rule(value.has_value(), "has arguments that do not fit ", global);
    push(value->kind) = std::move(*value);
  }
  /// A state dict's attribute _metadata, which says nothing of its weights.
  void build() {
    pop();
    top(Kind::dictionary, "a dictionary");
  }

  /// False at the end.
  bool step(Op op) {
    switch (op) {
      case Op::stop:
        return false;
      case Op::protocol:
        stream_.take(1);
        return true;
      case Op::frame:
        stream_.take(8);
        return true;
      case Op::mark:
        marks_.push_back(stack_.size());
        return true;
      case Op::pop:
        pop();
        return true;
      case Op::build:
        build();
        return true;
      case Op::reduce:
        call();
        return true;
      case Op::persistent:
        push_storage();
        return true;
      default:
        rule(step_value(op) || step_container(op) || step_reference(op),
             "opcode ",
             static_cast<int>(op),
             " is not of values or a state dict,");
        return true;
    }
  }
  bool step_value(Op op) {
    switch (op) {
      case Op::none:
        push(Kind::none);
        return true;
      case Op::yes:
      case Op::no:
        push(Kind::boolean).integer = op == Op::yes ? 1 : 0;
        return true;
      case Op::int1:
        push_integer(stream_.number<std::uint8_t>());
        return true;
      case Op::int2:
        push_integer(stream_.number<std::uint16_t>());
        return true;
      case Op::int4:
        push_integer(stream_.number<std::int32_t>());
        return true;
      case Op::long1:
        push_integer(stream_.long_integer());
        return true;
      case Op::float_number:
        stream_.take(8);  // whatever it is
        push(Kind::number);
        return true;
      case Op::text1:
      case Op::bytes1:
      case Op::unicode1:
        push_text(stream_.text(stream_.number<std::uint8_t>()));
        return true;
      case Op::text4:
      case Op::bytes4:
      case Op::string4:  // signed; a negative length is more than there is
        push_text(stream_.text(stream_.number<std::uint32_t>()));
        return true;
      case Op::unicode8:
      case Op::bytes8:
        push_text(stream_.text(stream_.number<std::uint64_t>()));
        return true;
      default:
        return false;
    }
  }
  bool step_container(Op op) {
    switch (op) {
      case Op::empty_list:
      case Op::empty_tuple:
        push(Kind::sequence);
        return true;
      case Op::empty_dictionary:
        push(Kind::dictionary);
        return true;
      case Op::tuple: {
        const auto values = pop_to_mark();
        push(Kind::sequence).items.assign(values.begin(), values.end());
        return true;
      }
      case Op::tuple1:
      case Op::tuple2:
      case Op::tuple3:
        push_tuple(static_cast<std::size_t>(op) - static_cast<std::size_t>(Op::tuple1) + 1);
        return true;
      case Op::append:
        append({pop()});
        return true;
      case Op::appends:
        append(pop_to_mark());
        return true;
      case Op::set: {
        auto* value = pop();
        auto* key = pop();
        set({key, value});
        return true;
      }
      case Op::sets:
        set(pop_to_mark());
        return true;
      default:
        return false;
    }
  }
  bool step_reference(Op op) {
    switch (op) {
      case Op::put1:
        put(stream_.number<std::uint8_t>());
        return true;
      case Op::put4:
        put(stream_.number<std::uint32_t>());
        return true;
      case Op::memoize:
        put(memo_.size());
        return true;
      case Op::get1:
        get(stream_.number<std::uint8_t>());
        return true;
      case Op::get4:
        get(stream_.number<std::uint32_t>());
        return true;
      case Op::global: {
        const auto module = stream_.line();
        push_global(module, stream_.line());
        return true;
      }
      case Op::stack_global: {
        const auto* name = pop(Kind::text, "a name");
        push_global(pop(Kind::text, "a module's name")->text, name->text);
        return true;
      }
      default:
        return false;
    }
  }

  PickleStream stream_;
  PickleContent content_;
  Pickle& pickle_;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;
  std::map<std::uint64_t, PickleValue*> memo_;
};

}  // namespace

std::unique_ptr<Pickle> read_pickle(std::span<const std::uint8_t> bytes, PickleContent content) {
  auto pickle = std::make_unique<Pickle>();
  Machine(bytes, content, *pickle).run();
  return pickle;
}

}  // namespace dimred::checkpoints
