// Plays an interview with a client that is generated from the description of the API, and prints the result.
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

async function play(baseUrl: string, answers: Record<string, string | number>) {
  const client = createClient<paths>({ baseUrl });
  const listed = await client.GET("/api/models");
  if (!listed.data?.models.some((model) => model.id === "illness")) throw new Error("no such model");
  const begun = await client.POST("/api/sessions", { body: { model: "illness" } });
  if (!begun.data) throw new Error(begun.error.message);
  let session = begun.data;
  const wrong = await client.POST("/api/sessions/{session_id}/moves", {
    params: { path: { session_id: session.id } },
    body: { move: "tell", revision: session.revision, query: "season", answer: "purple" },
  });
  if (wrong.data || !wrong.error.message.includes("purple")) throw new Error("purple is no season");
  while (session.state.question !== null) {
    const name: string = session.state.question.name;
    const moved = await client.POST("/api/sessions/{session_id}/moves", {
      params: { path: { session_id: session.id } },
      body: { move: "tell", revision: session.revision, answer: answers[name] ?? null },
    });
    if (!moved.data) throw new Error(moved.error.message);
    session = moved.data;
  }
  if (session.state.result === null) throw new Error("no result");
  return session.state.result;
}

const [, , address, told] = process.argv;
play(address!, JSON.parse(told!)).then((result) => console.log(JSON.stringify(result)));
