// Package hook decides over calls that somebody else's program makes: whether one of the secrets of
// a hook has signed what came, which delivery it is, and which task or signal it becomes. It is
// pure: what came and the time are arguments.
//
// # Schemes
//
// All are HMAC-SHA256. They differ in what is signed and in where the signature stands:
//
//	scheme    key             signed            header, and what stands in it
//	github    the secret      BODY              X-Hub-Signature-256: sha256=HEX
//	shopify   the secret      BODY              X-Shopify-Hmac-Sha256: BASE64
//	stripe    the secret      TIME.BODY         Stripe-Signature: t=TIME,v1=HEX[,v1=HEX…]
//	slack     the secret      v0:TIME:BODY      X-Slack-Signature: v0=HEX, X-Slack-Request-Timestamp
//	standard  whsec_BASE64    ID.TIME.BODY      Webhook-Signature: v1,BASE64[ v1,BASE64…],
//	                                            Webhook-Id, Webhook-Timestamp, or the same of Svix
//	plain     the secret      BODY              one that the hook names: [PREFIX]HEX or BASE64
//
// # What holds
//
//   - Verify is true only when the MAC of what came, under one of the secrets, is one of the
//     signatures that came with it, all 32 bytes of it, and, where the scheme signs a time, when
//     that is no further from now than the hook's tolerance.
//   - MACs are compared in a time that tells nothing of them. Whatever is missing or malformed, the
//     body is read by a MAC at least once, so that the time does not tell either what was missing.
//     It does tell how many secrets a hook has.
//   - The same delivery gives the same id, however often it comes, if its sender names deliveries.
//     Where it does not, the id is the hash of what was signed: then the same text with the same
//     time, if a time is signed, is the same delivery.
//   - The headers are not signed but where the table says so, the ids of GitHub and Shopify neither.
//     Who can read what is sent to a hook can send it again under another id.
package hook
