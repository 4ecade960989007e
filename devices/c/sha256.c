#include <string.h>

#include "twinkeep.h"

static const uint32_t ROUND[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t word, unsigned bits) { return (word >> bits) | (word << (32 - bits)); }

static void compress(uint32_t state[8], const uint8_t block[64]) {
  uint32_t w[64];
  uint32_t s[8];
  unsigned i;
  for (i = 0; i < 16; i++) {
    const uint8_t *at = block + 4 * i;
    w[i] = ((uint32_t)at[0] << 24) | ((uint32_t)at[1] << 16) | ((uint32_t)at[2] << 8) | at[3];
  }
  for (; i < 64; i++) {
    uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ (w[i - 15] >> 3);
    uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  memcpy(s, state, sizeof s);
  for (i = 0; i < 64; i++) {
    uint32_t s1 = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25);
    uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
    uint32_t t1 = s[7] + s1 + choice + ROUND[i] + w[i];
    uint32_t s0 = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
    uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
    memmove(s + 1, s, 7 * sizeof s[0]);
    s[4] += t1;
    s[0] = t1 + s0 + majority;
  }
  for (i = 0; i < 8; i++) state[i] += s[i];
}

void tk_sha256_init(tk_sha256 *hash) {
  static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memcpy(hash->state, initial, sizeof initial);
  hash->length = 0;
}

void tk_sha256_update(tk_sha256 *hash, const void *data, size_t length) {
  const uint8_t *bytes = data;
  size_t used = (size_t)(hash->length % 64);
  if (length == 0) return;
  hash->length += length;
  if (used > 0) {
    size_t part = length < 64 - used ? length : 64 - used;
    memcpy(hash->block + used, bytes, part);
    bytes += part;
    length -= part;
    if (used + part < 64) return;
    compress(hash->state, hash->block);
  }
  for (; length >= 64; bytes += 64, length -= 64) compress(hash->state, bytes);
  memcpy(hash->block, bytes, length);
}

void tk_sha256_final(tk_sha256 *hash, uint8_t digest[32]) {
  static const uint8_t padding[64] = {0x80};
  uint64_t bits = hash->length * 8;
  size_t used = (size_t)(hash->length % 64);
  uint8_t size[8];
  unsigned i;
  for (i = 0; i < 8; i++) size[i] = (uint8_t)(bits >> (56 - 8 * i));
  tk_sha256_update(hash, padding, used < 56 ? 56 - used : 120 - used);
  tk_sha256_update(hash, size, sizeof size);
  for (i = 0; i < 32; i++) digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void tk_hmac_init(tk_hmac *hmac, const void *key, size_t key_length) {
  uint8_t pad[64];
  unsigned i;
  memset(pad, 0, sizeof pad);
  if (key_length > sizeof pad) {
    tk_sha256_init(&hmac->inner);
    tk_sha256_update(&hmac->inner, key, key_length);
    tk_sha256_final(&hmac->inner, pad);
  } else if (key_length > 0) {
    memcpy(pad, key, key_length);
  }
  tk_sha256_init(&hmac->inner);
  tk_sha256_init(&hmac->outer);
  for (i = 0; i < sizeof pad; i++) pad[i] ^= 0x36;
  tk_sha256_update(&hmac->inner, pad, sizeof pad);
  for (i = 0; i < sizeof pad; i++) pad[i] ^= 0x36 ^ 0x5c;
  tk_sha256_update(&hmac->outer, pad, sizeof pad);
}

void tk_hmac_update(tk_hmac *hmac, const void *data, size_t length) { tk_sha256_update(&hmac->inner, data, length); }

void tk_hmac_final(tk_hmac *hmac, uint8_t tag[32]) {
  tk_sha256_final(&hmac->inner, tag);
  tk_sha256_update(&hmac->outer, tag, 32);
  tk_sha256_final(&hmac->outer, tag);
}

void tk_base64url(const uint8_t *data, size_t length, char *text) {
  static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  uint32_t bits = 0;
  unsigned waiting = 0;
  size_t i;
  for (i = 0; i < length; i++) {
    bits = (bits << 8) | data[i];
    for (waiting += 8; waiting >= 6; waiting -= 6) *text++ = alphabet[(bits >> (waiting - 6)) & 63];
  }
  if (waiting > 0) *text++ = alphabet[(bits << (6 - waiting)) & 63];
  *text = '\0';
}

void tk_hex(const uint8_t *data, size_t length, char *text) {
  static const char digits[] = "0123456789abcdef";
  size_t i;
  for (i = 0; i < length; i++) {
    *text++ = digits[data[i] >> 4];
    *text++ = digits[data[i] & 15];
  }
  *text = '\0';
}

void tk_uuid(const uint8_t random[TK_UUID_BYTES], char uuid[TK_UUID_SIZE]) {
  uint8_t bytes[TK_UUID_BYTES];
  size_t from = 0;
  unsigned group;
  static const uint8_t groups[5] = {4, 2, 2, 2, 6};
  memcpy(bytes, random, sizeof bytes);
  bytes[6] = (uint8_t)((bytes[6] & 0x0f) | 0x40);
  bytes[8] = (uint8_t)((bytes[8] & 0x3f) | 0x80);
  for (group = 0; group < 5; group++) {
    tk_hex(bytes + from, groups[group], uuid);
    from += groups[group];
    uuid += 2 * groups[group];
    if (group < 4) *uuid++ = '-';
  }
}
