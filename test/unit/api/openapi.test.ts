import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openTestApi, type TestApi } from "../../support/api-harness.ts";

interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly additionalProperties?: unknown;
  readonly propertyNames?: unknown;
  readonly properties?: Readonly<Record<string, Schema>>;
}
type Content = Readonly<Record<string, { readonly schema: Schema }>>;
interface Operation {
  readonly operationId: string;
  readonly description: string;
  readonly requestBody?: { readonly required: boolean; readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly content?: Content }>>;
}
interface Document {
  readonly servers: readonly { readonly url: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

let api: TestApi;
let document: Document;
let text: string;
beforeAll(async () => {
  api = await openTestApi();
  const response = await api.server.inject({ url: "/api/openapi.json" });
  text = response.body;
  document = response.json();
});
afterAll(() => api[Symbol.asyncDispose]());

const operation = (method: string, path: string) => {
  const found = document.paths[path]?.[method];
  if (!found) throw new Error(`the document has no ${method} ${path}`);
  return found;
};
const operations = () => Object.values(document.paths).flatMap((path) => Object.values(path));

/** Returns the schema of the events of a stream. */
function stream(data: object) {
  return {
    type: "object",
    required: ["data"],
    properties: {
      event: { type: "string" },
      id: { type: "string" },
      data: { type: "string", contentMediaType: "application/json", ...data },
    },
  };
}

describe("the OpenAPI document", () => {
  it("names each operation once, describes it, and declares the shape of its errors", () => {
    const all = operations();
    expect(all.length).toBeGreaterThan(60);
    expect(new Set(all.map(({ operationId }) => operationId)).size).toBe(all.length);
    for (const { operationId, description, responses } of all) {
      expect(operationId).toMatch(/^[a-z]+([A-Z][a-zA-Z0-9]*)+$/);
      expect(description).not.toBe("");
      for (const status of ["4XX", "5XX"]) {
        const schema = responses[status]?.content?.["application/json"]?.schema;
        expect(schema).toEqual({ $ref: "#/components/schemas/Error" });
      }
    }
    expect(document.servers).toMatchObject([{ url: "/" }]);
  });

  it("describes bodies that routes parse themselves, and does not require optional bodies", () => {
    const form = operation("post", "/api/deploy").requestBody?.content["multipart/form-data"];
    expect(form?.schema.properties).toEqual({
      config: { $ref: "#/components/schemas/SourceDeployConfig" },
      source: { type: "string", format: "binary" },
    });
    expect(operation("put", "/api/archives").requestBody?.content).toEqual({
      "application/octet-stream": { schema: { type: "string", format: "binary" } },
    });
    expect(operation("post", "/api/hooks/git/{name}").requestBody?.required).toBe(true);
    expect(operation("post", "/api/apps").requestBody?.required).toBe(true);
    expect(operation("post", "/api/apps/{name}/stop").requestBody?.required).toBe(false);
    expect(operation("post", "/api/apps/{name}/deploy").requestBody).toMatchObject({
      required: false,
      content: { "application/json": { schema: { $ref: "#/components/schemas/DeployRequest" } } },
    });
  });

  it("names the schema of the events in the stream of changes", () => {
    const contentSchema = { $ref: "#/components/schemas/Change" };
    expect(
      operation("get", "/api/events").responses["200"]?.content?.["text/event-stream"],
    ).toEqual({ schema: stream({ contentSchema }) });
  });

  it("describes a text response as text, and a stream by the schema of its events", () => {
    expect(operation("get", "/api/apps/{name}/logs").responses["200"]?.content).toEqual({
      "application/json": { schema: { $ref: "#/components/schemas/Logs" } },
      "text/plain": { schema: { type: "string" } },
      "text/event-stream": { schema: stream({}) },
    });
    expect(operation("post", "/api/auth/logout").responses["204"]).toEqual({
      description: "No Content",
    });
  });

  it("describes maps with the schema of their values and the pattern of their keys", () => {
    const { AppSpec, SecretSpec } = document.components.schemas;
    expect(AppSpec?.properties?.["env"]).toMatchObject({
      additionalProperties: { anyOf: expect.any(Array) },
      propertyNames: { pattern: "^[A-Za-z_][A-Za-z0-9_.-]*$" },
    });
    expect(SecretSpec?.properties?.["data"]).toMatchObject({
      additionalProperties: { type: "string" },
      propertyNames: { pattern: "^[A-Za-z0-9._-]{1,253}$" },
    });
    expect(text).not.toContain("patternProperties");
  });

  it("has no schema whose type is an object or null, and no reference without a target", () => {
    expect(text).not.toMatch(/"type":\["object","null"\]/);
    const names = new Set(Object.keys(document.components.schemas));
    const used = [...text.matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(([, name]) => name);
    expect(used.length).toBeGreaterThan(50);
    for (const name of used) expect(names).toContain(name);
  });
});
