// Just enough JSON to read model.json: values, no writing, no comments.
#pragma once

#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace dcaplda {

struct Json {
  enum Kind { null, boolean, number, text, list, table } kind = null;
  bool flag = false;
  double value = 0.0;
  std::string words;
  std::vector<Json> items;
  std::map<std::string, Json> members;

  // The member of a table; null where there is none.
  const Json& operator[](const std::string& key) const {
    static const Json nothing;
    auto found = members.find(key);
    return found == members.end() ? nothing : found->second;
  }
  explicit operator bool() const { return kind != null; }
  std::vector<double> numbers() const {
    std::vector<double> made;
    for (const Json& item : items) made.push_back(item.value);
    return made;
  }
  static Json parse(const std::string& source);
};

class JsonReader {
 public:
  explicit JsonReader(const std::string& source) : at_(source.c_str()), end_(at_ + source.size()) {}

  Json whole() {
    Json made = value(0);
    blanks();
    if (at_ != end_) fail();
    return made;
  }

 private:
  const char* at_;
  const char* end_;

  [[noreturn]] void fail() const { throw std::runtime_error("model.json: not valid JSON"); }
  void blanks() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  bool took(char sign) {
    blanks();
    if (at_ == end_ || *at_ != sign) return false;
    ++at_;
    return true;
  }
  bool word(const std::string& expected) {
    if (static_cast<size_t>(end_ - at_) < expected.size()) return false;
    if (expected.compare(0, expected.size(), at_, expected.size()) != 0) return false;
    at_ += expected.size();
    return true;
  }

  Json value(int depth) {
    if (depth > 64) fail();
    blanks();
    Json made;
    if (took('{')) {
      made.kind = Json::table;
      while (!took('}')) {
        if (!made.members.empty() && !took(',')) fail();
        blanks();
        std::string key = string();
        if (!took(':')) fail();
        made.members[key] = value(depth + 1);
      }
    } else if (took('[')) {
      made.kind = Json::list;
      while (!took(']')) {
        if (!made.items.empty() && !took(',')) fail();
        made.items.push_back(value(depth + 1));
      }
    } else if (at_ != end_ && *at_ == '"') {
      made.kind = Json::text;
      made.words = string();
    } else if (word("true") || word("false")) {
      made.kind = Json::boolean;
      made.flag = at_[-2] == 'u';  // tr-u-e, fal-s-e
    } else if (!word("null")) {
      char* stop = nullptr;
      made.kind = Json::number;
      made.value = std::strtod(at_, &stop);
      if (stop == at_) fail();
      at_ = stop;
    }
    return made;
  }

  std::string string() {
    if (at_ == end_ || *at_ != '"') fail();
    std::string made;
    for (++at_; at_ != end_ && *at_ != '"'; ++at_) {
      // What is escaped (names of domains) is kept as it stands: nothing here looks at it.
      if (*at_ == '\\' && at_ + 1 != end_) made += *at_++;
      made += *at_;
    }
    if (at_ == end_) fail();
    ++at_;
    return made;
  }
};

inline Json Json::parse(const std::string& source) { return JsonReader(source).whole(); }

}  // namespace dcaplda
