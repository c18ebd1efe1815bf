// SPDX-License-Identifier: GPL-2.0
/* Sealing packets and opening them, by the kernel's library; keys from its keyrings. */
#include <crypto/chacha20poly1305.h>
#include <crypto/sha2.h>
#include <keys/user-type.h>
#include <linux/key.h>
#include <linux/key-type.h>
#include <linux/udp.h>
#include "internal.h"

void knt_hmac(const u8 *key, u32 key_len, const u8 *data, u32 len, u8 mac[KNT_KEY])
{
	BUILD_BUG_ON(KNT_KEY != SHA256_DIGEST_SIZE);
	hmac_sha256_usingrawkey(key, key_len, data, len, mac);
}

/*
 * Reads a key of type logon, which programs can make and use, and not read. The caller has to be
 * able to find it: by its description, in its own keyrings, by its own rights. Sleeps. -ENOKEY:
 * there is no such key; -EINVAL: it is of another type; -EACCES: it is not the caller's;
 * -EKEYREVOKED, -EKEYEXPIRED; -EMSGSIZE: it does not have len bytes.
 */
int knt_key_read(u32 serial, u8 *to, u32 len)
{
	const struct user_key_payload *payload;
	struct key *key, *found;
	int err;

	key = key_lookup(serial);
	if (IS_ERR(key))
		return -ENOKEY;
	/*
	 * The serial number alone proves nothing: anybody can try them all. Who cannot find the key
	 * is not told what it is, either. Types with a dot are the kernel's own.
	 */
	err = -EACCES;
	if (key->type->name[0] == '.')
		goto put;
	found = request_key(key->type, key->description, NULL);
	if (IS_ERR(found)) {
		if (PTR_ERR(found) == -EKEYREVOKED || PTR_ERR(found) == -EKEYEXPIRED)
			err = PTR_ERR(found);
		goto put;
	}
	if (found == key && key->type != &key_type_logon) {
		err = -EINVAL;
	} else if (found == key) {
		down_read(&key->sem);
		err = key_validate(key);
		if (!err) {
			payload = user_key_payload_locked(key);
			if (!payload)
				err = -EKEYREVOKED;
			else if (payload->datalen != len)
				err = -EMSGSIZE;
			else
				memcpy(to, payload->data, len);
		}
		up_read(&key->sem);
	}
	key_put(found);
put:
	key_put(key);
	return err;
}

/* What is authenticated besides the payload. Returns its length. */
static u32 knt_seal_known(u8 known[KNT_MAX_HEADER + KNT_LABEL], const u8 *head, u32 head_len,
			  const struct knt_seal *seal)
{
	memcpy(known, head, head_len);
	memcpy(known + head_len, seal->label, KNT_LABEL);
	return head_len + KNT_LABEL;
}

/*
 * In functions of their own: with the seventh argument on the stack the compiler may restore it by
 * a register, and nobody could tell how much is taken.
 */
static noinline void knt_encrypt(u8 *payload, u32 len, const u8 *known, u32 known_len,
				 const struct knt_seal *seal)
{
	chacha20poly1305_encrypt(payload, payload, len, known, known_len, seal->nonce, seal->key);
}

static noinline bool knt_decrypt(u8 *payload, u32 len, const u8 *known, u32 known_len,
				 const struct knt_seal *seal)
{
	return chacha20poly1305_decrypt(payload, payload, len, known, known_len, seal->nonce,
					seal->key);
}

/*
 * Seals a packet that begins with the transport's header, is in one piece and nobody else's, and
 * has room for the tag and the label.
 */
void knt_seal_payload(struct sk_buff *skb, u32 head_len, const struct knt_seal *seal)
{
	u8 known[KNT_MAX_HEADER + KNT_LABEL];
	u8 *payload = skb->data + head_len;
	u32 len = skb->len - head_len;
	u32 known_len = knt_seal_known(known, skb->data, head_len, seal);

	skb_put(skb, KNT_TAG);
	knt_encrypt(payload, len, known, known_len, seal);
	skb_put_data(skb, seal->label, KNT_LABEL);
}

/* The last bytes of a packet. False: there are not so many. */
bool knt_skb_tail(const struct sk_buff *skb, u8 *to, u32 len)
{
	return skb->len >= sizeof(struct udphdr) + len &&
	       !skb_copy_bits(skb, skb->len - len, to, len);
}

/*
 * Opens a packet that begins with UDP's header. head: the transport's, which need not be in the
 * packet. The payload is readable then, and tag and label are gone. False: its seal is not right,
 * or there is no memory; it may have been copied into one piece, and is otherwise as it was. Others
 * may look at the same bytes, as packet sockets do: they are not changed.
 */
bool knt_skb_open(struct sk_buff *skb, const u8 *head, u32 head_len, const struct knt_seal *seal)
{
	u8 known[KNT_MAX_HEADER + KNT_LABEL];
	u32 at = sizeof(struct udphdr) + head_len, known_len, len;
	struct sk_buff *trailer;
	u8 *payload;

	if (head_len > KNT_MAX_HEADER || skb->len < at + KNT_TAG + KNT_LABEL)
		return false;
	known_len = knt_seal_known(known, head, head_len, seal);
	if (skb_has_frag_list(skb) && skb_linearize(skb))
		return false;
	if (skb_cow_data(skb, 0, &trailer) != 1 || skb_is_nonlinear(skb))
		return false;
	payload = skb->data + at;
	len = skb->len - at - KNT_LABEL;
	if (!knt_decrypt(payload, len, known, known_len, seal))
		return false;
	/* The checksum was of other bytes. */
	skb->ip_summed = CHECKSUM_UNNECESSARY;
	return !pskb_trim(skb, skb->len - KNT_TAG - KNT_LABEL);
}
