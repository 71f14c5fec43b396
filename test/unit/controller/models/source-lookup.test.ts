import { expect, it } from "vitest";
import { createSourceLookup } from "../../../../src/controller/models/source-lookup.ts";

/** Resolves `localhost` with the DNS lookup for requests to the model source, because every machine knows that name. */
function resolveLocalhost(source: string): Promise<unknown> {
  const lookup = createSourceLookup(new URL(source), (problem) => new Error(problem));
  return new Promise((resolve, reject) => {
    lookup("localhost", { family: 4 }, (error, address) => {
      if (error) reject(error);
      else resolve(address);
    });
  });
}

it("the DNS look-up for a model's URL refuses an address of this machine", async () => {
  await expect(resolveLocalhost("https://models.example.org/m.gguf")).rejects.toThrow(
    "leads to this machine",
  );
});

it("the DNS look-up for a model's URL on this machine accepts an address of this machine", async () => {
  expect(await resolveLocalhost("http://127.0.0.1:8000/m.gguf")).toBe("127.0.0.1");
});
