// Converts a text to JSON that matches a schema. Needs the package "openai". Usage:
//   node examples/assistant/invoice.mjs "Two pears, 3.20"
// The variable BERTH_ASSISTANT_URL contains the assistant's address. The default is http://127.0.0.1:7777.
import OpenAI from "openai";

const url = process.env.BERTH_ASSISTANT_URL ?? "http://127.0.0.1:7777";
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "any" });

const schema = {
  type: "object",
  properties: {
    item: { type: "string", maxLength: 60 },
    count: { type: "integer", minimum: 1, maximum: 1000 },
    price: { type: "number", minimum: 0, multipleOf: 0.01 },
    currency: { enum: ["EUR", "USD", "CHF"] },
  },
  required: ["item", "count", "price", "currency"],
  additionalProperties: false,
};

const { data } = await client.models.list();
const answer = await client.chat.completions.create({
  model: data[0]?.id ?? "",
  messages: [{ role: "user", content: process.argv[2] ?? "Two pears for 3.20 euros" }],
  response_format: { type: "json_schema", json_schema: { name: "invoice", schema } },
});
console.log(JSON.parse(answer.choices[0].message.content));
