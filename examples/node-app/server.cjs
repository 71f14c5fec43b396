// A Node app without packages and without a Dockerfile. It listens on PORT.
const { createServer } = require("node:http");

const port = Number(process.env.PORT ?? 3000);
const server = createServer((request, response) => {
  response.setHeader("Content-Type", "text/plain; charset=utf-8");
  response.end(`hello from Node ${process.versions.node}, ${request.url}\n`);
});
server.listen(port, () => process.stdout.write(`listening on ${port}\n`));

// Requests in progress are answered before the process exits.
process.on("SIGTERM", () => server.close(() => process.exit(0)));
