<?php
// The ten operations by the PHP client of openapi-generator. Arguments: the folder of the client.

declare(strict_types=1);

require 'GuzzleHttp/Psr7/autoload.php';
require 'GuzzleHttp/autoload.php';
spl_autoload_register(function (string $class) use ($argv): void {
    $file = $argv[1] . '/lib/' . strtr(substr($class, strlen('OpenAPI\\Client\\')), '\\', '/') . '.php';
    if (str_starts_with($class, 'OpenAPI\\Client\\') && is_file($file)) {
        require_once $file;
    }
});

// every class of the client, not only those that are used below
foreach (new RecursiveIteratorIterator(new RecursiveDirectoryIterator("$argv[1]/lib")) as $file) {
    if ($file->getExtension() === 'php') {
        require_once $file->getPathname();
    }
}

use OpenAPI\Client\Api;
use OpenAPI\Client\ApiException;
use OpenAPI\Client\Configuration;
use OpenAPI\Client\Model;

function equal(mixed $actual, mixed $expected): void
{
    if ($actual !== $expected) {
        throw new Exception(json_encode($actual) . ' is not ' . json_encode($expected));
    }
}

$env = getenv();
$settings = function (?string $token = null) use ($env): Configuration {
    $settings = (new Configuration())->setHost($env['BASE_URL']);
    return $token === null ? $settings : $settings->setAccessToken($token);
};
[$sku, $eshop, $packaging] = [$env['SKU'], $env['ESHOP_ID'], $env['PACKAGING']];

$credentials = new Model\Credentials(['login' => $env['ADMIN_LOGIN'], 'password' => $env['ADMIN_PASSWORD']]);
$login = (new Api\AccountApi(null, $settings()))->loginAdmin($credentials);
$organisations = (new Api\AccountApi(null, $settings($login->getToken())))
    ->listOrganisations(new Model\OrganisationQuery(['limit' => 1]));
equal($organisations->getPaging()->getTotal() >= 1, true);

$ours = $settings($env['USER_TOKEN']);
$catalog = new Api\CatalogApi(null, $ours);
$partner = new Api\PartnerApi(null, $ours);
$webhooks = new Api\WebhookApi(null, $ours);

$hook = $webhooks->createWebhook(new Model\WebhookToCreate([
    'eshop' => $eshop, 'event' => 'product_change', 'destination' => 'http://127.0.0.1:1/',
    'authentication' => new Model\WebhookAuthentication(['type' => 'bearer', 'token' => 'secret']),
]));
equal([is_string($hook->getSecret()), $hook->getAuthentication()->getToken()], [true, '***']);

$wanted = fn (string $sku, string $eshop, array $further = []) => new Model\ProductToCreate($further + [
    'eshops' => [$eshop], 'organisation' => $env['ORGANISATION_ID'], 'product_sku' => $sku, 'internal_sku' => $sku,
    'name' => 'Harbour mug', 'imei_check_required' => false, 'active' => true,
]);
$product = $catalog->createProduct($wanted($sku, $eshop, [
    'packaging_type' => $packaging, 'work_around_sn_in' => true, 'work_around_ean_sticker' => true,
    'work_around_warranty_inf' => true, 'work_around_lot' => true,
]));

// What neither an update nor a sync was told to change.
$stored = function () use ($catalog, $product, $packaging): Model\Product {
    $read = $catalog->getProduct($product->getId());
    equal([
        $read->getPackagingType(), $read->getWorkAroundSnIn(), $read->getWorkAroundEanSticker(),
        $read->getWorkAroundWarrantyInf(), $read->getWorkAroundLot(), $read->getActive(),
    ], [$packaging, true, true, true, true, true]);
    return $read;
};

$query = new Model\ProductQuery([
    'criteria' => [
        'productSku' => new Model\TextCriterion(['eq' => $sku]), 'eshops' => new Model\IdsCriterion(['eq' => $eshop]),
        'organisation.id' => new Model\Criterion(['eq' => $env['ORGANISATION_ID']]),
    ],
    'sort' => [new Model\SortKey(['field' => 'createdAt'])], 'limit' => 5,
]);
$page = $catalog->listProducts($query);
equal(array_map(fn ($one) => $one->getId(), $page->getResults()), [$product->getId()]);

$changed = $catalog->updateProduct($product->getId(), new Model\ProductToUpdate(['name' => 'Harbour mug, blue']));
equal([$changed->getName(), $stored()->getName()], ['Harbour mug, blue', 'Harbour mug, blue']);

$row = new Model\ProductRow(['product_sku' => $sku, 'weight' => 320]);
$sync = new Model\ProductSync(['eshop' => $eshop, 'products' => [$row]]);
$job = $partner->syncProducts($sync, null, 'wait=30');
$job = (new Api\JobApi(null, $ours))->getJob($job->getId());
equal([$job->getState(), $job->getProgress()->getChanged(), $job->getProgress()->getFailed()], ['succeeded', 1, 0]);
equal($stored()->getWeight(), 320);

$count = new Model\StockRow(['product_sku' => $sku, 'quantity' => 7]);
$counts = new Model\StockSync(['eshop' => $eshop, 'warehouse_id' => $env['WAREHOUSE_ID'], 'stocks' => [$count]]);
equal($partner->syncProductStocks($counts, null, 'wait=30')->getState(), 'succeeded');
$stocks = (new Api\WarehouseApi(null, $ours))->listProductStocks(new Model\ProductStockQuery([
    'criteria' => ['product.productSku' => new Model\Criterion(['eq' => $sku])], 'limit' => 5,
]));
equal(array_map(fn ($one) => $one->getQuantity(), $stocks->getResults()), [7]);

$of_hook = new Model\DeliveryCriteria(['webhook' => new Model\IdCriterion(['eq' => $hook->getId()])]);
$deliveries = $webhooks->listDeliveries(new Model\DeliveryQuery(['criteria' => $of_hook, 'limit' => 5]));
equal($deliveries->getPaging()->getTotal() >= 1, true);

try {
    $catalog->createProduct($wanted("$sku-2", $hook->getId()));
    throw new Exception('an unknown e-shop was taken');
} catch (ApiException $refused) {
    $problem = $refused->getResponseObject();
    equal($problem instanceof Model\Problem, true);
    equal([$problem->getStatus(), $problem->getCode()], [400, 'invalid_data']);
    equal(array_map(fn ($one) => $one->getPropertyPath(), $problem->getViolations()), ['eshops[0]']);
}
