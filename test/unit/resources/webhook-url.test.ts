import { expect, it } from "vitest";
import { checkWebhookUrl } from "../../../src/resources/webhook-url.ts";

it.each([
  ["https://chat.example.org/hook?x=1", "https://chat.example.org/hook?x=1"],
  ["HTTP://10.0.0.5:9000", "http://10.0.0.5:9000/"],
  ["http://[fd00::1]/a", "http://[fd00::1]/a"],
  ["http://localhost:8080/", "http://localhost:8080/"],
])("%s is accepted as a receiver", (text, url) => {
  expect(checkWebhookUrl(text)).toBe(url);
});

it.each([
  ["chat.example.org", "not a URL"],
  ["ftp://a.example/", "ftp is not http or https"],
  ["file:///etc/passwd", "file is not http or https"],
  ["https://me:word@a.example/", "not contain a user or a password"],
  ["https://a.example/#top", "not contain a fragment"],
  [`https://a.example/${"x".repeat(2_048)}`, "longer than 2048"],
  ["http://169.254.169.254/latest", "machine's credentials"],
  ["http://2852039166/latest", "machine's credentials"],
  ["http://0xa9.0xfe.0xa9.0xfe/", "machine's credentials"],
  ["http://[::ffff:169.254.169.254]/", "machine's credentials"],
  ["http://[::169.254.169.254]/", "machine's credentials"],
  ["http://[::ffff:0:a9fe:a9fe]/", "machine's credentials"],
  ["http://[64:ff9b::169.254.169.254]/", "machine's credentials"],
  ["http://[2002:a9fe:a9fe::]/", "machine's credentials"],
  ["http://[fd00:ec2::254]/", "machine's credentials"],
  ["http://[fd20:ce::254]/", "machine's credentials"],
  ["http://168.63.129.16/", "machine's credentials"],
  ["http://100.100.100.200/", "machine's credentials"],
])("%s is refused as a receiver", (text, why) => {
  expect(() => checkWebhookUrl(text)).toThrow(
    expect.objectContaining({ code: "invalid_request", message: expect.stringContaining(why) }),
  );
});
