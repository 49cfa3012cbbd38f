// SPDX-License-Identifier: Apache-2.0
//
// The only file of leasehold that knows which CAF it sees.
//
// The rest of the tree is written in CAF 1.x vocabulary: result<R>(Args...)
// signatures, mail(...), monitoring with a callback, validated enums. On CAF
// 0.17 this header supplies that vocabulary; on CAF 1.x it forwards.
#pragma once

#include <caf/all.hpp>
#include <caf/detail/sync_request_bouncer.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#if CAF_MAJOR_VERSION == 0 && CAF_MINOR_VERSION < 18
#  if CAF_MINOR_VERSION < 17
#    error "leasehold needs CAF 0.17.6 or CAF 1.x"
#  endif
#  define LEASEHOLD_CAF_017 1
#elif CAF_MAJOR_VERSION == 0
#  error "leasehold supports CAF 0.17.6 and CAF 1.x, not what lies between"
#else
#  define LEASEHOLD_CAF_017 0
#  include <caf/default_enum_inspect.hpp>
#  include <caf/init_global_meta_objects.hpp>
#endif
#ifdef LEASEHOLD_WITH_IO
#  include <caf/io/all.hpp>
#endif

namespace leasehold {

// -- typed actors: one spelling of signatures --------------------------------

#if LEASEHOLD_CAF_017
namespace detail {
template <class Sig>
struct legacy_sig;

template <class... Out, class... In>
struct legacy_sig<caf::result<Out...>(In...)> {
  using type = typename caf::replies_to<In...>::template with<Out...>;
};
} // namespace detail
template <class... Sigs>
using typed_actor
  = caf::typed_actor<typename detail::legacy_sig<Sigs>::type...>;
#else
template <class... Sigs>
using typed_actor = caf::typed_actor<Sigs...>;
#endif

// -- inspection: fields(f, x, field("name", x.member)...) --------------------

template <class T>
struct field_t {
  std::string_view name;
  T& value;
};

template <class T>
field_t<T> field(std::string_view name, T& value) {
  return {name, value};
}

#if LEASEHOLD_CAF_017

namespace detail {

// An enum member that only loads values that from_integer accepts; CAF 0.17
// itself casts any integer to the enum.
template <class E>
struct checked_enum {
  E& value;

  template <class Inspector>
  friend typename Inspector::result_type inspect(Inspector& f,
                                                 checked_enum& x) {
    auto raw = static_cast<std::underlying_type_t<E>>(x.value);
    auto store = [&]() -> caf::error {
      if (from_integer(raw, x.value))
        return caf::none;
      return caf::make_error(caf::sec::invalid_argument, "bad enum value");
    };
    return f(raw, caf::meta::load_callback(store));
  }

  friend std::string to_string(const checked_enum& x) {
    return to_string(x.value);
  }
};

// std::optional as presence flag plus value; CAF 0.17 knows only its own type.
template <class T>
struct checked_optional {
  std::optional<T>& value;

  template <class Inspector>
  friend typename Inspector::result_type inspect(Inspector& f,
                                                 checked_optional& x) {
    auto has = static_cast<uint8_t>(x.value.has_value());
    T item = x.value ? *x.value : T{};
    auto store = [&]() -> caf::error {
      if (has)
        x.value = std::move(item);
      else
        x.value.reset();
      return caf::none;
    };
    return f(has, item, caf::meta::load_callback(store));
  }

  friend std::string to_string(const checked_optional& x) {
    return x.value ? caf::deep_to_string(*x.value) : std::string{"none"};
  }
};

template <class T>
decltype(auto) adapt(T& x) {
  if constexpr (std::is_enum_v<T>)
    return checked_enum<T>{x};
  else
    return (x);
}

template <class T>
checked_optional<T> adapt(std::optional<T>& x) {
  return {x};
}

// What has no type ID has no name, either.
template <class T>
constexpr const char* name_of() {
  if constexpr (requires { caf::type_name<T>::value; })
    return caf::type_name<T>::value;
  else
    return "anonymous";
}

} // namespace detail

/// Whether an inspector writes to what it inspects.
template <class Inspector>
inline constexpr bool is_loading = Inspector::writes_state;

template <class Inspector, class T, class... Ts>
auto fields(Inspector& f, T&, field_t<Ts>... xs) ->
  typename Inspector::result_type {
  return f(caf::meta::type_name(detail::name_of<T>()),
           detail::adapt(xs.value)...);
}

#else

template <class Inspector>
inline constexpr bool is_loading = Inspector::is_loading;

template <class Inspector, class T, class... Ts>
bool fields(Inspector& f, T& x, field_t<Ts>... xs) {
  return f.object(x).fields(f.field(xs.name, xs.value)...);
}

/// Covers every enum of our namespaces that has to_string, from_string and
/// from_integer.
template <class Inspector, class E>
auto inspect(Inspector& f, E& x)
  -> std::enable_if_t<std::is_enum_v<E>,
                      decltype(from_integer(std::underlying_type_t<E>{}, x))> {
  return caf::default_enum_inspect(f, x);
}

namespace backend {

using leasehold::inspect;

} // namespace backend

namespace internal {

using leasehold::inspect;

} // namespace internal

#endif

// -- bytes: CAF's binary format, without an actor system ----------------------

/// Differs between CAF versions that do not read each other's bytes.
#if LEASEHOLD_CAF_017
inline constexpr int binary_format = 0;
#else
inline constexpr int binary_format = 1;
#endif

/// Appends `x` to `bytes`. Returns false if it cannot be written, which is so
/// for handles of actors.
template <class T>
bool to_binary(const T& x, std::string& bytes) {
#if LEASEHOLD_CAF_017
  caf::serializer_impl<std::string> sink{
    static_cast<caf::execution_unit*>(nullptr), bytes};
  return !sink(x);
#else
  caf::byte_buffer buf;
  caf::binary_serializer sink{buf};
  if (!sink.apply(x))
    return false;
  bytes.append(reinterpret_cast<const char*>(buf.data()), buf.size());
  return true;
#endif
}

/// Reads `x` from exactly these bytes. Returns false if they are too few, too
/// many or no such value; `x` is then anything.
template <class T>
bool from_binary(std::string_view bytes, T& x) {
#if LEASEHOLD_CAF_017
  caf::binary_deserializer source{static_cast<caf::execution_unit*>(nullptr),
                                  bytes.data(), bytes.size()};
  return !source(x) && source.remaining() == 0;
#else
  caf::binary_deserializer source{bytes.data(), bytes.size()};
  return source.apply(x) && source.remaining() == 0;
#endif
}

// -- error codes -------------------------------------------------------------

#if LEASEHOLD_CAF_017
/// Global scope. `category`: at most 10 characters.
#  define LEASEHOLD_ERROR_CODE(type, category)                                 \
    CAF_ERROR_CODE_ENUM(type, category)
#else
#  define LEASEHOLD_ERROR_CODE(type, category) CAF_ERROR_CODE_ENUM(type)
#endif

/// Returns the code if `x` is of category `E`.
template <class E>
std::optional<E> error_as(const caf::error& x) {
#if LEASEHOLD_CAF_017
  auto match = x && x.category() == caf::detail::error_factory<E>::category;
#else
  auto match = x && x.category() == caf::type_id_v<E>;
#endif
  if (match)
    return static_cast<E>(x.code());
  return std::nullopt;
}

// -- messages: post(self, ...) is self->mail(...) of CAF 1.x
// ---------------------------------

#if LEASEHOLD_CAF_017

template <class Self, class... Ts>
class [[nodiscard]] post_t {
public:
  post_t(Self self, std::tuple<Ts...> xs) : self_(self), xs_(std::move(xs)) {
  }

  post_t delay(caf::actor_clock::duration_type x) && {
    delay_ = x;
    return std::move(*this);
  }

  template <class Handle>
  void send(const Handle& to) && {
    apply([&](Ts&... xs) {
      if (delay_ > caf::actor_clock::duration_type::zero())
        self_->delayed_send(to, delay_, std::move(xs)...);
      else
        self_->send(to, std::move(xs)...);
    });
  }

  // A timespan rather than any duration: CAF 0.17 knows no unit above minutes.
  template <class Handle>
  auto request(const Handle& to, caf::timespan timeout) && {
    return apply(
      [&](Ts&... xs) { return self_->request(to, timeout, std::move(xs)...); });
  }

  template <class Handle>
  auto request(const Handle& to, caf::infinite_t timeout) && {
    return apply(
      [&](Ts&... xs) { return self_->request(to, timeout, std::move(xs)...); });
  }

  template <class Handle>
  auto delegate(const Handle& to) && {
    return apply(
      [&](Ts&... xs) { return self_->delegate(to, std::move(xs)...); });
  }

private:
  template <class F>
  auto apply(F f) {
    return std::apply(f, xs_);
  }

  Self self_;
  std::tuple<Ts...> xs_;
  caf::actor_clock::duration_type delay_{0};
};

template <class Self, class... Ts>
auto post(Self* self, Ts&&... xs) {
  return post_t<Self*, std::decay_t<Ts>...>{self, {std::forward<Ts>(xs)...}};
}

template <class... Ts>
auto post(caf::scoped_actor& self, Ts&&... xs) {
  return post(self.ptr(), std::forward<Ts>(xs)...);
}

#else

template <class Self, class... Ts>
auto post(Self&& self, Ts&&... xs) {
  return self->mail(std::forward<Ts>(xs)...);
}

#endif

template <class Handle, class... Ts>
void post_anon(const Handle& to, Ts&&... xs) {
#if LEASEHOLD_CAF_017
  caf::anon_send(to, std::forward<Ts>(xs)...);
#else
  caf::anon_mail(std::forward<Ts>(xs)...).send(to);
#endif
}

// -- monitoring with a callback ----------------------------------------------

/// Owned by the watching actor; runs one callback per watched actor.
class watches {
public:
  using callback = std::function<void(const caf::error&)>;

#if LEASEHOLD_CAF_017
  template <class Self>
  explicit watches(Self* self) {
    self->set_down_handler([this](caf::down_msg& msg) {
      if (auto node = cbs_.extract(msg.source))
        node.mapped()(msg.reason);
    });
  }

  template <class Self, class Handle>
  void add(Self* self, const Handle& whom, callback fn) {
    if (cbs_.insert_or_assign(whom.address(), std::move(fn)).second)
      self->monitor(whom);
  }

  template <class Self>
  void remove(Self* self, const caf::actor_addr& whom) {
    if (cbs_.erase(whom) > 0)
      self->demonitor(whom);
  }

private:
  std::map<caf::actor_addr, callback> cbs_;
#else
  template <class Self>
  explicit watches(Self*) {
  }

  template <class Self, class Handle>
  void add(Self* self, const Handle& whom, callback fn) {
    auto addr = whom.address();
    auto& slot = cbs_[addr];
    slot.dispose();
    // An entry of an actor that is down would keep its memory.
    auto once = [this, addr, fn = std::move(fn)](const caf::error& reason) {
      cbs_.erase(addr);
      fn(reason);
    };
    slot = self->monitor(whom, std::move(once));
  }

  template <class Self>
  void remove(Self*, const caf::actor_addr& whom) {
    if (auto node = cbs_.extract(whom))
      node.mapped().dispose();
  }

private:
  std::map<caf::actor_addr, caf::disposable> cbs_;
#endif
};

/// Makes `self` quit when `whom` does, with the same reason. Takes over the
/// down handler of `self` on CAF 0.17.
template <class Self, class Handle>
void end_with(Self* self, const Handle& whom) {
#if LEASEHOLD_CAF_017
  self->monitor(whom);
  self->set_down_handler([self, addr = whom.address()](caf::down_msg& msg) {
    if (msg.source == addr)
      self->quit(std::move(msg.reason));
  });
#else
  self->monitor(whom, [self](const caf::error& reason) { self->quit(reason); });
#endif
}

/// Makes the behavior of a typed actor that handles exit messages (links,
/// send_exit) itself: `fn` runs for each, `fs` are the handlers.
template <class Self, class F, class... Fs>
typename Self::behavior_type exit_aware(Self* self, F fn, Fs... fs) {
#if LEASEHOLD_CAF_017
  self->set_exit_handler(std::move(fn));
  return {std::move(fs)...};
#else
  (void)self;
  return {std::move(fs)...,
          [fn = std::move(fn)](caf::exit_msg& msg) mutable { fn(msg); }};
#endif
}

// -- an actor without a mailbox ----------------------------------------------

/// Base of an actor that exists to be monitored: it ends by an exit message,
/// whatever the reason, and may answer one kind of request. It is a tenth of
/// the size of an event-based actor, because it has neither mailbox nor turn:
/// a message is handled in the thread of its sender. So `answer` must be safe
/// to call from any thread.
#if LEASEHOLD_CAF_017
template <class Question, class Answer>
class passive_actor : public caf::monitorable_actor {
public:
  explicit passive_actor(caf::actor_config& cfg) : caf::monitorable_actor(cfg) {
    // nop
  }

  void enqueue(caf::mailbox_element_ptr what,
               caf::execution_unit* host) override {
    if (what->content().template match_elements<caf::exit_msg>()) {
      auto reason = what->content().template get_as<caf::exit_msg>(0).reason;
      cleanup(std::move(reason), host);
    } else if (getf(is_cleaned_up_flag)) {
      caf::detail::sync_request_bouncer{
        caf::make_error(caf::sec::request_receiver_down)}(*what);
    } else if (what->content().template match_elements<Question>()) {
      if (what->sender && what->mid.is_request())
        what->sender->enqueue(caf::make_mailbox_element(
                                nullptr, what->mid.response_id(), {}, answer()),
                              host);
    } else {
      caf::detail::sync_request_bouncer{
        caf::make_error(caf::sec::unexpected_message)}(*what);
    }
  }

  void on_destroy() override {
    if (!getf(is_cleaned_up_flag))
      cleanup(caf::exit_reason::unreachable, nullptr);
    caf::monitorable_actor::on_destroy();
  }

protected:
  virtual Answer answer() const = 0;
};
#else
template <class Question, class Answer>
class passive_actor : public caf::abstract_actor {
public:
  explicit passive_actor(caf::actor_config& cfg) : caf::abstract_actor(cfg) {
    // nop
  }

  bool enqueue(caf::mailbox_element_ptr what, caf::scheduler* host) override {
    if (what->payload.match_elements<caf::exit_msg>()) {
      auto reason = what->payload.get_as<caf::exit_msg>(0).reason;
      cleanup(std::move(reason), host);
      return true;
    }
    if (is_terminated()) {
      caf::detail::sync_request_bouncer{}(*what);
      return false;
    }
    if (!what->payload.match_elements<Question>()) {
      caf::detail::sync_request_bouncer{
        caf::make_error(caf::sec::unexpected_message)}(*what);
    } else if (what->sender && what->mid.is_request()) {
      what->sender->enqueue(
        caf::make_mailbox_element(nullptr, what->mid.response_id(), answer()),
        host);
    }
    return true;
  }

  void setup_metrics() {
    // CAF calls it on every actor that it makes.
  }

protected:
  virtual Answer answer() const = 0;

private:
  void force_close_mailbox() override {
    // There is none.
  }
};
#endif

/// Makes a passive actor. The system does not wait for it at its end.
template <class Impl, class Handle, class... Ts>
Handle make_passive(caf::actor_system& sys, Ts&&... xs) {
  caf::actor_config cfg;
  return caf::actor_cast<Handle>(caf::make_actor<Impl, caf::strong_actor_ptr>(
    sys.next_actor_id(), sys.node(), &sys, cfg, std::forward<Ts>(xs)...));
}

// -- threads that are not CAF's ----------------------------------------------

/// Makes the calling thread forget the actor system that it used last. CAF
/// 0.17 keeps a reference per thread, and the destructor of the system waits
/// until that is gone: for as long as the thread lives, if need be.
inline void forget_system() {
#if LEASEHOLD_CAF_017
  caf::logger::set_current_actor_system(nullptr);
#else
  caf::logger::current_logger(nullptr);
#endif
}

// -- configuration -----------------------------------------------------------

namespace detail {

// A base class, so that it runs before caf::actor_system_config's constructor.
template <class... Blocks>
struct type_setup {
  type_setup() {
#if !LEASEHOLD_CAF_017
    static const bool once = [] {
      caf::core::init_global_meta_objects();
#  ifdef LEASEHOLD_WITH_IO
      caf::io::middleman::init_global_meta_objects();
#  endif
      (caf::init_global_meta_objects<Blocks>(), ...);
      return true;
    }();
    (void)once;
#endif
  }
};

} // namespace detail

/// Base for an application's config: registers the message types of `Blocks`.
template <class... Blocks>
class config_base : private detail::type_setup<Blocks...>,
                    public caf::actor_system_config {
public:
  config_base() {
#if LEASEHOLD_CAF_017
    (add_message_types<Blocks>(), ...);
#endif
  }

  /// Applies KEY=VALUE settings under their CAF 1.x names, for example
  /// "caf.middleman.heartbeat-interval=1s". Reads no configuration file.
  caf::error apply(const std::vector<std::string>& settings) {
    std::vector<std::string> args;
    for (auto& x : settings) {
      auto skip = size_t{0};
#if LEASEHOLD_CAF_017
      if (x.compare(0, 4, "caf.") == 0)
        skip = 4;
#endif
      args.push_back("--" + x.substr(skip));
    }
    std::istringstream no_file;
    return parse(std::move(args), no_file);
  }
};

} // namespace leasehold
