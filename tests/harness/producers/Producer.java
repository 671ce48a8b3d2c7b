import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;

/**
 * A producer in Java: {@code java Producer.java URL DESTINATION STOP} sends messages, one a request, from four threads
 * until the file STOP is there. A request without an answer is repeated with the same id. Each id that was answered for
 * (202) is a line of its output.
 */
public class Producer {
    static final int WORKERS = 4;
    static final long PAUSE = 10;
    static final long AGAIN = 20;
    static final HttpClient CLIENT = HttpClient.newBuilder()
        .version(HttpClient.Version.HTTP_1_1).connectTimeout(Duration.ofSeconds(5)).build();

    static String newId() {
        var random = ThreadLocalRandom.current();
        long first = System.currentTimeMillis() << 16 | 0x7000 | random.nextLong(0x1000);
        long second = 1L << 63 | random.nextLong() >>> 2;
        return new UUID(first, second).toString();
    }

    static void send(String url, String id, String body) throws InterruptedException {
        var request = HttpRequest.newBuilder(URI.create(url))
            .timeout(Duration.ofSeconds(10))
            .header("Content-Type", "application/json")
            .header("Bus-Message-Id", id)
            .POST(HttpRequest.BodyPublishers.ofString(body))
            .build();
        for (; ; Thread.sleep(AGAIN)) {
            try {
                var answer = CLIENT.send(request, HttpResponse.BodyHandlers.ofString());
                if (answer.statusCode() == 202) return;
                if (answer.statusCode() != 429 && answer.statusCode() < 500) {
                    System.err.println("refused " + answer.statusCode() + " " + answer.body());
                    System.exit(1);
                }
            } catch (IOException gone) {
                continue;
            }
        }
    }

    static void work(String url, Path stop) {
        try {
            for (int number = 0; !Files.exists(stop); number++) {
                var id = newId();
                send(url, id, "{\"from\": \"java\", \"number\": " + number + "}");
                System.out.print(id + "\n");
                Thread.sleep(PAUSE);
            }
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        var threads = new ArrayList<Thread>();
        for (int worker = 0; worker < WORKERS; worker++) {
            var thread = new Thread(() -> work(arguments[0] + "/v1/messages/" + arguments[1], Path.of(arguments[2])));
            thread.start();
            threads.add(thread);
        }
        for (var thread : threads) thread.join();
    }
}
