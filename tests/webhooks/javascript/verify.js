// Reads {secret, body, headers} and says whether the library takes it.
const { Webhook, WebhookVerificationError } = require("standardwebhooks");

const { secret, body, headers } = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
try {
  new Webhook(secret).verify(body, headers);
  console.log("genuine");
} catch (error) {
  if (!(error instanceof WebhookVerificationError)) throw error;
  console.log("refused");
}
