#include <curl/curl.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cmath>
#include <exception>

#include "stores/store.h"
#include "stores/upload.h"
#include "support/errors.h"
#include "support/text.h"

namespace dimred::stores {
namespace {

struct Header {
  std::int64_t total = -1;  // bytes of the whole file; -1: not said
  std::string etag;
  std::string range;  // Content-Range
  std::string length;
};

std::string value_of(std::string_view line, std::size_t colon) {
  auto value = line.substr(colon + 1);
  while (!value.empty() && std::isspace(static_cast<unsigned char>(value.front())) != 0)
    value.remove_prefix(1);
  while (!value.empty() && std::isspace(static_cast<unsigned char>(value.back())) != 0)
    value.remove_suffix(1);
  return std::string(value);
}

/// One response: what arrives goes to the sink, unless it is an error's page.
struct Response {
  CURL* curl = nullptr;
  Header header;
  const Sink* sink = nullptr;  // null: only the header is wanted
  const Item* expected = nullptr;
  std::int64_t skip = 0;  // bytes that a server without ranges sends again
  std::int64_t offset = 0;
  std::int64_t received = 0;
  bool changed = false;
  std::exception_ptr thrown;  // of the sink

  long status() const {
    long code = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
    return code;
  }
};

std::size_t take_header(char* text, std::size_t, std::size_t size, void* pointer) {
  auto& header = static_cast<Response*>(pointer)->header;
  const std::string_view line(text, size);
  if (line.starts_with("HTTP/")) header = {};  // after a redirection
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) return size;
  const auto name = lower_case(std::string(line.substr(0, colon)));
  if (name == "etag") header.etag = value_of(line, colon);
  if (name == "last-modified" && header.etag.empty()) header.etag = value_of(line, colon);
  if (name == "content-length") header.length = value_of(line, colon);
  if (name == "content-range") header.range = value_of(line, colon);
  return size;
}

/// "bytes 0-0/1234" -> 1234; a whole answer says it by its own length.
std::int64_t total_of(const Header& header, long status) {
  const auto slash = header.range.rfind('/');
  const bool part = status == 206 || status == 416;
  const auto text = !part                        ? header.length
                    : slash == std::string::npos ? std::string()
                                                 : header.range.substr(slash + 1);
  const bool number =
      !text.empty() && text.size() < 19 &&
      std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
  return number ? std::stoll(text) : -1;
}

std::size_t take_body(char* bytes, std::size_t, std::size_t size, void* pointer) {
  auto& response = *static_cast<Response*>(pointer);
  const auto status = response.status();
  if (status != 200 && status != 206) return size;  // of an error's page
  if (response.sink == nullptr) return 0;           // enough: ends the transfer
  if (response.received == 0 && response.skip == 0) {
    const auto& expected = *response.expected;
    response.changed = total_of(response.header, status) != expected.size ||
                       (!expected.etag.empty() && response.header.etag != expected.etag);
    if (response.changed) return 0;
    if (status == 200) response.skip = response.offset;
  }
  response.received += static_cast<std::int64_t>(size);
  const auto skipped = std::min<std::int64_t>(response.skip, static_cast<std::int64_t>(size));
  response.skip -= skipped;
  try {
    (*response.sink)({reinterpret_cast<const std::byte*>(bytes) + skipped, size - skipped});
  } catch (...) {
    response.thrown = std::current_exception();
    return 0;
  }
  return size;
}

/// Called several times a second, also while nothing arrives; not 0 ends the transfer.
int stops(void* stop, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const std::atomic<bool>*>(stop)->load() ? 1 : 0;
}

bool passing(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return true;
    default:
      return false;
  }
}

bool passing(long status) {
  return status == 408 || status == 425 || status == 429 ||
         (status >= 500 && status != 501 && status != 505 && status != 507);
}

class HttpStore : public Store {
 public:
  explicit HttpStore(const StoreOptions& options) : timeout_(options.timeout), stop_(options.stop) {
    static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
    check(ready == CURLE_OK, "curl_global_init");
    curl_ = curl_easy_init();
    check(curl_ != nullptr, "curl_easy_init");
  }
  ~HttpStore() override { curl_easy_cleanup(curl_); }
  HttpStore(const HttpStore&) = delete;
  HttpStore& operator=(const HttpStore&) = delete;

  /// The first byte is asked for, not HEAD: signed links allow GET alone.
  std::optional<Item> stat(const Url& url) override {
    Response response;
    const auto code = perform(url, "0-0", response);
    const auto status = response.status();
    if (status == 404 || status == 410) return {};
    if (status != 416 && !(code == CURLE_WRITE_ERROR && status == 200))
      require_success(url, code, response);
    const auto total = total_of(response.header, status);
    if (total < 0)
      throw StoreError(formatted("[stores] {}: the server does not say its length", shown(url)),
                       false);
    return Item{"", total, response.header.etag};
  }

  bool lists() const override { return false; }

  std::vector<Item> list(const Url& folder) override {
    throw StoreError(formatted("[stores] {} cannot be listed over HTTP", shown(folder)), false);
  }

  void read(const Url& url, const Item& expected, std::int64_t offset, const Sink& sink) override {
    if (offset >= expected.size) return;
    Response response;
    response.sink = &sink;
    response.expected = &expected;
    response.offset = offset;
    const auto code = perform(url, offset > 0 ? formatted("{}-", offset) : "", response);
    if (response.thrown) std::rethrow_exception(response.thrown);
    if (response.changed)
      throw Changed(formatted("[stores] {} has changed since it was looked at", shown(url)));
    require_success(url, code, response);
  }

  void put(const std::filesystem::path&, const Url& url) override { require_writable(url); }
  void remove(const Url& url) override { require_writable(url); }

 private:
  CURLcode perform(const Url& url, const std::string& range, Response& response) {
    const auto address = identity(url);
    curl_easy_reset(curl_);
    error_[0] = 0;
    response.curl = curl_;
    const auto set = [&](auto option, auto value) {
      check(curl_easy_setopt(curl_, option, value) == CURLE_OK, "curl_easy_setopt");
    };
    set(CURLOPT_URL, address.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, 10L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_OPTIONAL));
    set(CURLOPT_USERAGENT, "dimred");
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(timeout_ * 1000));
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, std::lround(std::ceil(timeout_)));
    set(CURLOPT_ERRORBUFFER, error_);
    set(CURLOPT_HEADERFUNCTION, take_header);
    set(CURLOPT_HEADERDATA, static_cast<void*>(&response));
    set(CURLOPT_WRITEFUNCTION, take_body);
    set(CURLOPT_WRITEDATA, static_cast<void*>(&response));
    if (stop_ != nullptr) {
      set(CURLOPT_NOPROGRESS, 0L);
      set(CURLOPT_XFERINFOFUNCTION, stops);
      set(CURLOPT_XFERINFODATA, const_cast<void*>(static_cast<const void*>(stop_)));
    }
    if (!url.user.empty()) {
      const auto colon = url.user.find(':');
      set(CURLOPT_USERNAME, percent_decoded(url.user.substr(0, colon)).c_str());
      if (colon != std::string::npos)
        set(CURLOPT_PASSWORD, percent_decoded(url.user.substr(colon + 1)).c_str());
    }
    if (!range.empty()) set(CURLOPT_RANGE, range.c_str());
    return curl_easy_perform(curl_);
  }

  void require_success(const Url& url, CURLcode code, const Response& response) const {
    if (code == CURLE_ABORTED_BY_CALLBACK)
      throw Stopped(formatted("[stores] {} was stopped", shown(url)));
    const auto status = response.status();
    const auto told = [&](const std::string& what, bool again) {
      throw StoreError(formatted("[stores] cannot read {}: {}", shown(url), what), again);
    };
    if (status == 401 || status == 403)
      throw Refused(formatted(
          "[stores] cannot read {}: the credentials are refused (HTTP {})", shown(url), status));
    if (status >= 300) told(formatted("HTTP {}", status), passing(status));
    if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && response.sink == nullptr)) return;
    told(error_[0] != 0 ? error_ : curl_easy_strerror(code), passing(code));
  }

  CURL* curl_ = nullptr;
  double timeout_;
  const std::atomic<bool>* stop_;
  char error_[CURL_ERROR_SIZE] = {};
};

}  // namespace

std::unique_ptr<Store> make_http_store(const StoreOptions& options) {
  return std::make_unique<HttpStore>(options);
}

}  // namespace dimred::stores
